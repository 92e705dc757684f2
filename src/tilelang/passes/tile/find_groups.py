"""Finds the groups of threads in branches on the thread index, as `T.ws` would have named them.

Takes a tile-level function with its index bindings in place. A branch that whole neighboring warps take, and others do
not, and in which tile operators, parallel loops or groups stand or tiles are printed, becomes one of a group:
`if thread < 128:` is `with T.ws(0):`, and so are its `else` and `elif`; a `T.ws` of the same threads inside adds
nothing and goes. Invariant: every thread does what it did
before, and together they print a tile once.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tilelang.analysis.per_thread import shows_tile
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var, unary
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.stmt import CallStmt, Group, If, Launch, ParallelLoop, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter, loads_of, sub_statements, variables_of
from tilelang.isa import instruction as isa
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    warp_size = context.target.machine.warp_size

    def found(launch: Launch) -> Stmt | None:
        if launch.thread is None:
            return launch
        return _Find(launch.thread, Group(0, launch.num_threads), warp_size, inside=False).rebuild_stmt(launch)

    return with_launches(func, found)


class _Find(Rewriter):
    """Rewrites what threads of one group execute.

    Args:
        thread: The index of the executing thread.
        group: The threads that come here.
        warp_size: Threads of a warp.
        inside: Whether these are a group, not the whole block.
    """

    def __init__(self, thread: Var, group: Group, warp_size: int, *, inside: bool) -> None:
        self._thread, self._group, self._warp_size, self._inside = thread, group, warp_size, inside

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, If):
            return self.rebuild_stmt(node)
        if node.group is not None:
            if node.group.first <= self._group.first and self._group.end <= node.group.end and self._inside:
                return self.visit(node.then_body) or Seq((), loc=node.loc)  # `T.ws` of the threads that come here
            return _Find(self._thread, node.group, self._warp_size, inside=True).rebuild_stmt(node)
        if not _does_together(node):
            return node
        taken = self._taken(node.condition)
        if taken is None:
            return self.rebuild_stmt(node)
        sides = [self._side(node, node.condition, node.then_body, taken)]
        if node.else_body is not None:
            other = unary(UnaryOp.NOT, node.condition)
            sides.append(self._side(node, other, node.else_body, ~taken))
        return sides[0] if len(sides) == 1 else Seq(tuple(sides), loc=node.loc)

    def _taken(self, condition: Expr) -> np.ndarray | None:
        """Which threads take a branch; None if that depends on more than their index."""
        if variables_of(condition) != {self._thread} or loads_of(condition):
            return None
        indices = np.arange(self._group.first, self._group.end)
        return np.broadcast_to(np.asarray(evaluate(condition, {self._thread: indices}), bool), indices.shape)

    def _side(self, node: If, condition: Expr, body: Stmt, taken: np.ndarray) -> Stmt:
        """One side of a branch, as that of a group if it is one."""
        made = dataclasses.replace(node, condition=condition, then_body=body, else_body=None)
        places = np.flatnonzero(taken)
        if not len(places) or not _does_together(body):
            return self.rebuild_stmt(made) or made
        first, count = self._group.first + int(places[0]), len(places)
        neighbors = int(places[-1] - places[0]) + 1 == count
        if not neighbors or first % self._warp_size or count % self._warp_size:
            return self.rebuild_stmt(made) or made
        group = Group(first, count)
        inner = _Find(self._thread, group, self._warp_size, inside=True).visit(body) or Seq((), loc=body.loc)
        return dataclasses.replace(made, then_body=inner, group=group)


def _does_together(stmt: Stmt) -> bool:
    """Whether something stands there that threads do together."""
    if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction):
        return stmt.routine.group is isa.Group.WARP_GROUP
    if isinstance(stmt, TileOp | ParallelLoop) or shows_tile(stmt) or isinstance(stmt, If) and stmt.group is not None:
        return True
    return any(_does_together(child) for child in sub_statements(stmt))


PASS = Pass(
    "find_groups", _run, Level.TILE, Level.TILE,
    requires=(Property.INDICES_INLINED,),
    establishes=(Property.THREAD_GROUPS,),
)
