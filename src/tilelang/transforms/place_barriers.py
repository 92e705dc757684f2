"""Inserts barriers at program points that an analysis has found.

Takes statements before which, and bodies at whose end, a barrier is inserted; gives the new program. Invariant:
nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from tilelang.dtypes import SCALARS
from tilelang.errors import Loc
from tilelang.ir.expr import const
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import CallStmt, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP


def block_barrier(threads: int, warp_size: int, loc: Loc) -> Stmt:
    """A barrier of all threads of a block; a block of one warp needs none of the block."""
    if threads > warp_size:
        return CallStmt(SYNC_THREADS, (), loc=loc)
    return CallStmt(SYNC_WARP, (const((1 << threads) - 1, SCALARS[f"uint{warp_size}"]),), loc=loc)


class PlaceBarriers(Rewriter):
    """The rewriting.

    Args:
        before: The statements before which a barrier is inserted.
        ends: The bodies at whose end one is inserted.
        barrier: Makes the one before a statement, or at the end of a body.
    """

    def __init__(self, before: Set[Stmt], ends: Set[Stmt], barrier: Callable[[Stmt], Stmt]) -> None:
        self._before, self._ends, self._barrier = before, ends, barrier

    def stmt(self, node: Stmt) -> Stmt | None:
        """The statement with the barriers in it and around it."""
        if isinstance(node, Seq):
            body: list[Stmt] = []
            for child in node.body:
                if child in self._before:
                    body.append(self._barrier(child))
                body.append(self._rebuilt(child))
            if node in self._ends:
                body.append(self._barrier(node))
            return with_statements(node, body)
        new = self._rebuilt(node)
        if node not in self._before and node not in self._ends:
            return new
        first = [self._barrier(node)] if node in self._before else []
        last = [self._barrier(node)] if node in self._ends else []
        return Seq((*first, new, *last), loc=node.loc)

    def _rebuilt(self, node: Stmt) -> Stmt:
        with node.loc:
            return (self.stmt(node) if isinstance(node, Seq) else self.rebuild_stmt(node)) or node
