"""Which memory a statement may clobber: facts about its contents end there.

Takes the body of a launch at thread level, then its statements. Invariant: no fact survives about memory that a
statement, or another thread that it synchronizes with, may write.
"""

from __future__ import annotations

from functools import cached_property

from tilelang.analysis.thread_accesses import SHARED_BY_THREADS
from tilelang.arith.domain import Domain
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Atomic, CallStmt, Stmt
from tilelang.ir.visit import walk, written_buffers


class Clobbers:
    """Drops facts about memory that the statements of a launch may write."""

    def __init__(self, body: Stmt) -> None:
        self._body = body

    @cached_property
    def _clobbered(self) -> frozenset[Buffer]:
        """Shared and global buffers that the launch writes anywhere."""
        return frozenset(b for b in _written(self._body) if b.scope in SHARED_BY_THREADS)

    def after(self, stmt: Stmt, domain: Domain) -> Domain:
        """The facts that survive a statement, or that hold in all iterations of a loop with this body."""
        if not domain.loads:
            return domain
        written = _written(stmt)
        anywhere = any(b.address is not None for b in written)
        waits = any(isinstance(s, CallStmt) or isinstance(s, Atomic) and s.acquires for s in walk(stmt))

        def may_be_clobbered(buffer: Buffer) -> bool:
            if buffer in written or waits and buffer in self._clobbered:
                return True
            at_address = buffer.address is not None and any(b.scope is Scope.GLOBAL for b in written)
            return at_address or anywhere and buffer.scope is Scope.GLOBAL

        return domain.forget(may_be_clobbered)


def _written(stmt: Stmt) -> frozenset[Buffer]:
    return frozenset(b.storage for s in walk(stmt) for b in written_buffers(s))
