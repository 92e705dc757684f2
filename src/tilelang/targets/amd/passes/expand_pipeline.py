"""Commits and waits for the direct loads to LDS of expanded pipelines, and zeros for loads of no iteration.

Takes the expanded body of a launch; gives one that waits for all loads behind its loops. Loads to registers need no
waits, since the compiler inserts them where the registers are read; where the registers are unused for a part of an
iteration, they become zeros beyond the last one, so that their former values are dead.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from tilelang.analysis.accesses import accesses
from tilelang.analysis.whole_stores import overwritten
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import CallStmt, For, ForKind, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.lowering import by_loop
from tilelang.lowering.lowering import ACCEPTED
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.passes.base import PassContext
from tilelang.schedule.async_copies import CopyGroups
from tilelang.schedule.expand_pipeline import expand_pipeline
from tilelang.schedule.loop_body import fills
from tilelang.targets.amd.isa.direct_to_lds import COMMIT_DIRECT_LOADS, WAIT_FOR_DIRECT_LOAD_GROUPS


def _moves_registers(stmt: Stmt) -> bool:
    """Whether a statement copies registers to a whole shared tile, which is harmless after the last iteration.

    It needs no branch then, and neither does the barrier before it, which the tile's readers need as well.
    """
    return (
        isinstance(stmt, Copy) and stmt.src.buffer.scope is Scope.FRAGMENT and fills(stmt, stmt.dst.buffer)
        and stmt.dst.buffer.scope is Scope.SHARED
    )  # fmt: skip


def _zeros(stmt: Stmt, inside: Set[Buffer]) -> Stmt | None:
    """Zeros in the registers that a statement loads from global memory, for iterations that do not exist.

    Args:
        stmt: The statement.
        inside: Buffers that are used in one loop only.
    """
    found = accesses(stmt).all
    written = {access.buffer for access in found if access.write}
    if len(written) != 1 or not any(access.buffer.scope is Scope.GLOBAL for access in found):
        return None
    (tile,) = written
    if tile.scope is not Scope.FRAGMENT or tile not in inside or tile not in overwritten(stmt):
        return None
    return Fill(whole(tile), const(0, tile.dtype), choice=by_loop.FILL.name, plan=ACCEPTED, loc=stmt.loc)


def _of_one_loop(launch: Launch) -> set[Buffer]:
    """The buffers that are used in one pipelined loop only."""
    users: dict[Buffer, set[For | None]] = {}
    for access in accesses(launch.body).all:
        around = [s for s in access.context.loops() if isinstance(s, For) and s.kind is ForKind.PIPELINED]
        users.setdefault(access.buffer.storage, set()).add(around[-1] if around else None)
    return {buffer for buffer, loops in users.items() if len(loops) == 1 and None not in loops}


class _Drain(Rewriter):
    """Waits for all direct loads after each loop that issues some: loads for iterations past the end are in flight."""

    def stmt(self, node: Stmt) -> Stmt | None:
        made = self.rebuild_stmt(node)
        if not isinstance(made, For) or not any(_commits(stmt) for stmt in flat_statements(made.body)):
            return made
        return Seq((made, CallStmt(WAIT_FOR_DIRECT_LOAD_GROUPS, (const(0, INT32),), loc=node.loc)), loc=node.loc)


def _commits(stmt: Stmt) -> bool:
    return isinstance(stmt, CallStmt) and stmt.routine is COMMIT_DIRECT_LOADS


def _drained(body: Stmt, copies: Set[Stmt], launch: Launch, context: PassContext) -> Stmt:
    return _Drain().visit(body) or body


def _beyond_last(launch: Launch) -> Callable[[Stmt], Stmt | None]:
    inside = _of_one_loop(launch)
    return lambda stmt: _zeros(stmt, inside)


PASS = expand_pipeline(
    CopyGroups(COMMIT_DIRECT_LOADS, WAIT_FOR_DIRECT_LOAD_GROUPS), _drained, _moves_registers, _beyond_last
)
