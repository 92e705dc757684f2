"""Keeps elements of tiles in registers that only the iteration of a loop which computes them uses.

    for j in range(n):                             for j in range(n):
        squares[i, j] = x[j] * x[j]           =>       squares_element = x[j] * x[j]
        folded = folded + squares[i, j]                folded = folded + squares_element

Tiles of one statement and the next are needed no more once their loops are fused. Takes a thread-level function.
Invariant: nothing else accesses such a tile, and each of its loads comes after the store of the same element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Bind, For, Stmt, Store, While
from tilelang.ir.visit import Rewriter, accessed_buffers, expressions, loads_of, walk, written_buffers
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    accesses = Counter(buffer.storage for stmt in walk(func.body) for buffer in accessed_buffers(stmt))
    views = {stmt.buffer.storage for stmt in walk(func.body) if isinstance(stmt, Alloc) and stmt.buffer.view_of}
    found = {
        store: Var(f"{store.buffer.name}_element", store.buffer.dtype)
        for loop in walk(func.body)
        if isinstance(loop, For)
        for store in _private_stores(loop, accesses)
        if store.buffer not in views
    }
    return with_body(func, _Keep(found).visit(func.body) or func.body) if found else func


def _private_stores(loop: For, accesses: Counter[Buffer]) -> Iterator[Store]:
    """The stores of an innermost loop whose elements nothing but later statements of an iteration loads."""
    body = statements_of(loop.body)
    if any(isinstance(stmt, For | While) for stmt in walk(loop.body)):
        return
    written = {buffer.storage for stmt in walk(loop.body) for buffer in written_buffers(stmt)}
    for place, store in enumerate(body):
        if not isinstance(store, Store) or store.buffer.scope not in (Scope.FRAGMENT, Scope.SHARED):
            continue
        if any(load.buffer.storage in written for index in store.indices for load in loads_of(index)):
            continue  # the same index may be another element at a load
        later = [load for after in body[place + 1 :] for load in _loads(after, store.buffer)]
        same = all(all(map(same_expr, load.indices, store.indices)) for load in later)
        if later and same and accesses[store.buffer] == 1 + len(later) and store.value.dtype == store.buffer.dtype:
            yield store


def _loads(stmt: Stmt, buffer: Buffer) -> Iterator[Load]:
    for inner in walk(stmt):
        for root in expressions(inner):
            yield from (load for load in loads_of(root) if load.buffer is buffer)


class _Keep(Rewriter):
    """Binds what was stored to variables, and removes the tiles."""

    def __init__(self, found: dict[Store, Var]) -> None:
        self._found = found
        self._variables = {store.buffer: var for store, var in found.items()}

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Alloc) and node.buffer in self._variables:
            return None
        if isinstance(node, Store) and node in self._found:
            return Bind(self._found[node], self.expr(node.value), loc=node.loc)
        return self.rebuild_stmt(node)

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in self._variables:
            return self._variables[node.buffer]
        return self.rebuild_expr(node)


PASS = Pass(
    "keep_in_registers", _run, Level.THREAD, Level.THREAD,
    requires=(Property.LOOPS_FUSED, Property.ACCESSES_UNPREDICATED),
)
