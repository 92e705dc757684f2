"""Commits and waits for the direct loads to LDS of expanded pipelines.

Takes the expanded body of a launch; gives one that waits for all loads behind its loops. Loads to registers need no
waits, since the compiler inserts them where the registers are read.
"""

from __future__ import annotations

from collections.abc import Set

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import const
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import CallStmt, For, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.ops.copy import Copy
from tilelang.passes.base import PassContext
from tilelang.schedule.async_copies import CopyGroups
from tilelang.schedule.expansion import expand_pipeline
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


PASS = expand_pipeline(CopyGroups(COMMIT_DIRECT_LOADS, WAIT_FOR_DIRECT_LOAD_GROUPS), _drained, _moves_registers)
