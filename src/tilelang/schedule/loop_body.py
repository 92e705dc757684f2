"""The accesses of the statements of one pipelined loop, and which statements fill a tile as a whole.

Takes a tile-level loop, gives its effectful statements with their accesses and the bindings that they use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from tilelang.analysis.accesses import Access, accesses
from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.ir.assumption import Assume, loaded_buffers
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.sequences import effectful, flat_statements
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, Stmt
from tilelang.ir.visit import expressions, loads_of, needed_bindings, variables_of, walk, walk_expr
from tilelang.lowering.regions import is_whole
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill

# the number of a statement, its access to the storage (None: a binding reads it), whether it writes
StatementAccess = tuple[int, Access | None, bool]


class LoopBody:
    """The accesses of the statements of one pipelined loop.

    Attributes:
        loop: The loop.
        statements: Its effectful statements.
        allocated: The buffers that its body allocates.
    """

    def __init__(self, loop: For) -> None:
        self.loop = loop
        self.statements = effectful(loop.body)
        body = flat_statements(loop.body)
        self.allocated = {s.buffer for s in body if isinstance(s, Alloc)}
        self._bindings = {s.var: s for s in body if isinstance(s, Bind)}
        self._assumptions = {s: self._assumptions_in(body[:n]) for n, s in enumerate(body) if s in self.statements}
        self.touched = [self._touched(s) for s in self.statements]
        self.storages: dict[Buffer, list[StatementAccess]] = {}  # for each storage, the statements that access it
        for number, touched in enumerate(self.touched):
            for storage, access, write in touched:
                self.storages.setdefault(storage, []).append((number, access, write))

    def _touched(self, stmt: Stmt) -> list[tuple[Buffer, Access | None, bool]]:
        """(storage, access, whether it writes) of a statement; access is None for storage that a binding reads."""
        found = accesses(stmt)
        touched: list[tuple[Buffer, Access | None, bool]] = [
            (a.buffer.storage, a, a.write) for a in found.all if a.buffer.storage not in found.local
        ]
        touched += [(storage, None, False) for storage in self.read_by_bindings(stmt)]
        return touched

    def bound_variables(self, stmt: Stmt) -> list[Var]:
        """The variables of bindings of the body that a statement uses, directly or through others, definitions first.

        Those of the assumptions on these variables that stand before the statement follow.
        """
        needed = [bind.var for bind in needed_bindings((stmt,), self._bindings)]
        assumptions = [a for a in self._assumptions.get(stmt, ()) if self._of_body(a.value) <= set(needed)]
        return [*needed, *(assumption.var for assumption in assumptions)]

    def _of_body(self, expr: Expr) -> Set[Var]:
        return variables_of(expr) & self._bindings.keys()

    def _assumptions_in(self, before: Sequence[Stmt]) -> list[Assume]:
        """The assumptions among statements that concern no memory."""
        return [s for s in before if isinstance(s, Assume) and not loaded_buffers(s.value)]

    def bound_variables_before(self, number: int, users: Sequence[int]) -> list[Var]:
        """The variables bound before a statement that some of `users` use, in program order."""
        used = {name for user in users for name in self.bound_variables(self.statements[user])}
        before: list[Var] = []
        for part in flat_statements(self.loop.body):
            if part is self.statements[number]:
                break
            if isinstance(part, Bind) and part.var in used:
                before.append(part.var)
        return before

    def is_volatile(self, name: Var) -> bool:
        """Whether a binding loads memory that the loop writes, so that it must not move."""
        loads = {node.buffer.storage for node in loads_of(self._bindings[name].value)}
        return any(storage in loads and write for touched in self.touched for storage, _, write in touched)

    def read_by_bindings(self, stmt: Stmt) -> Iterator[Buffer]:
        """The storages that the bindings of a statement read."""
        for name in self.bound_variables(stmt):
            for node in walk_expr(self._bindings[name].value):
                if isinstance(node, Load):
                    yield node.buffer.storage

    def bind(self, name: Var) -> Bind:
        """The binding of a variable of the body."""
        return self._bindings[name]

    def fills_first(self, buffer: Buffer) -> int | None:
        """The statement that writes a whole shared buffer in every iteration, before any other access to it."""
        first = self.uses_first(buffer)
        return first if first is not None and fills(self.statements[first], buffer) else None

    def uses_first(self, buffer: Buffer) -> int | None:
        """The statement with the first access to a buffer in an iteration, if it has one access only."""
        touching = self.storages.get(buffer, [])
        if not touching or sum(number == touching[0][0] for number, _, _ in touching) > 1:
            return None
        return touching[0][0]

    def uses(self, stmt: Stmt, var: Var) -> bool:
        """Whether a statement uses a variable, directly or by the bindings that it needs."""
        values = [self.bind(bound).value for bound in self.bound_variables(stmt)]
        roots = [*(e for s in walk(stmt) for e in expressions(s)), *values]
        return any(node is var for root in roots for node in walk_expr(root))

    def results(self, stmt: Stmt) -> set[Var]:
        """The variables that a statement defines for later ones."""
        return {s.result for s in walk(stmt) if isinstance(s, CallStmt | Atomic) and s.result is not None}


def fills(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement writes a whole buffer without reading it."""
    match stmt:
        case Copy(dst=dst):
            return dst.buffer is buffer and stmt.src.buffer.storage is not buffer and is_whole(dst)
        case Fill(dst=dst):
            return dst.buffer is buffer and is_whole(dst)
    store = asynchronous_store(stmt)
    return store is not None and store.buffer is buffer
