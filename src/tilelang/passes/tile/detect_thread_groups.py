"""Detects groups of whole warps in branches on the thread index, and marks them like `T.ws`.

Takes a tile-level function with its index bindings inlined. A branch that a range of whole warps takes, and that has
tile operators, parallel loops, groups or printed tiles in it, becomes a branch of a `Group`: `if thread < 128:` becomes
`with T.ws(0):`, and so do its `else` and `elif`. A nested `T.ws` of the same threads is inlined. Invariant: every
thread executes the same statements, and a group prints a tile once.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tilelang.analysis.divergence import shows_tile
from tilelang.ir.builder import as_body
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
        return _DetectGroups(launch.thread, Group(0, launch.num_threads), warp_size, inside=False).rebuild_stmt(launch)

    return with_launches(func, found)


class _DetectGroups(Rewriter):
    """Rewrites the statements that one group of threads executes.

    Args:
        thread: The index of the executing thread in the block.
        group: The threads that reach the statements.
        warp_size: Threads of a warp.
        inside: Whether that is a thread group, not the whole block.
    """

    def __init__(self, thread: Var, group: Group, warp_size: int, *, inside: bool) -> None:
        self._thread, self._group, self._warp_size, self._inside = thread, group, warp_size, inside

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, If):
            return self.rebuild_stmt(node)
        if node.group is not None:
            if node.group.first <= self._group.first and self._group.end <= node.group.end and self._inside:
                # redundant: all threads that reach it are in the group
                return self.visit(node.then_body) or Seq((), loc=node.loc)
            return _DetectGroups(self._thread, node.group, self._warp_size, inside=True).rebuild_stmt(node)
        if not _is_collective(node):
            return node
        taken = self._taken(node.condition)
        if taken is None:
            return self.rebuild_stmt(node)
        sides = [self._side(node, node.condition, node.then_body, taken)]
        if node.else_body is not None:
            other = unary(UnaryOp.NOT, node.condition)
            sides.append(self._side(node, other, node.else_body, ~taken))
        return as_body(sides, node.loc)

    def _taken(self, condition: Expr) -> np.ndarray | None:
        """Mask of the threads that take a branch; None if the condition depends on more than the thread index."""
        if variables_of(condition) != {self._thread} or loads_of(condition):
            return None
        indices = np.arange(self._group.first, self._group.end)
        return np.broadcast_to(np.asarray(evaluate(condition, {self._thread: indices}), bool), indices.shape)

    def _side(self, node: If, condition: Expr, body: Stmt, taken: np.ndarray) -> Stmt:
        """One side of a branch, marked with its group if whole neighboring warps take it."""
        side = dataclasses.replace(node, condition=condition, then_body=body, else_body=None)
        threads = np.flatnonzero(taken)
        if not len(threads) or not _is_collective(body):
            return self.rebuild_stmt(side) or side
        first, count = self._group.first + int(threads[0]), len(threads)
        neighbors = int(threads[-1] - threads[0]) + 1 == count
        if not neighbors or first % self._warp_size or count % self._warp_size:
            return self.rebuild_stmt(side) or side
        group = Group(first, count)
        inner = _DetectGroups(self._thread, group, self._warp_size, inside=True).visit(body) or Seq((), loc=body.loc)
        return dataclasses.replace(side, then_body=inner, group=group)


def _is_collective(stmt: Stmt) -> bool:
    """Whether a statement contains collective operations: tile operators, parallel loops, warp-group instructions."""
    if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction):
        return stmt.routine.execution_scope is isa.ExecutionScope.WARP_GROUP
    if isinstance(stmt, TileOp | ParallelLoop) or shows_tile(stmt) or isinstance(stmt, If) and stmt.group is not None:
        return True
    return any(_is_collective(child) for child in sub_statements(stmt))


PASS = Pass(
    "detect_thread_groups", _run, Level.TILE, Level.TILE,
    requires=(Property.SUBSCRIPTS_AFFINE, Property.WARP_SIZE_KNOWN),
    establishes=(Property.THREAD_GROUPS_DETECTED,),
)
