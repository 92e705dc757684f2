"""Which memory statements may change: what is known of its contents ends there.

Takes the body of a launch at thread level, then its statements. Invariant: of memory that a statement, or another
thread that is waited for in it, may write, nothing is known behind it.
"""

from __future__ import annotations

from functools import cached_property

from tilelang.arith.domain import Domain
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Atomic, CallStmt, Stmt
from tilelang.ir.visit import walk, written_buffers

_OF_ALL = (Scope.SHARED, Scope.GLOBAL)


class Changes:
    """What the statements of a launch do to what is known of memory."""

    def __init__(self, body: Stmt) -> None:
        self._body = body

    @cached_property
    def _changing(self) -> frozenset[Buffer]:
        """The memory of several threads that the launch writes anywhere."""
        return frozenset(b for b in _written(self._body) if b.scope in _OF_ALL)

    def behind(self, stmt: Stmt, domain: Domain) -> Domain:
        """What stays known after a statement, or in all iterations of a loop of which it is the body."""
        if not domain.loads:
            return domain
        written = _written(stmt)
        anywhere = any(b.address is not None for b in written)
        waits = any(isinstance(s, CallStmt) or isinstance(s, Atomic) and s.acquires for s in walk(stmt))

        def changed(buffer: Buffer) -> bool:
            if buffer in written or waits and buffer in self._changing:
                return True
            at_address = buffer.address is not None and any(b.scope is Scope.GLOBAL for b in written)
            return at_address or anywhere and buffer.scope is Scope.GLOBAL

        return domain.forget(changed)


def _written(stmt: Stmt) -> frozenset[Buffer]:
    return frozenset(b.storage for s in walk(stmt) for b in written_buffers(s))
