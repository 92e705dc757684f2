"""Loop distribution (fission) of parallel loops: a loop for each group of statements that share no written memory.

Of loops over rows, statements that share only the element of their own iteration get loops of their own, too. Takes a
parallel loop, gives loops over the same iterations. Invariant: executed one after another they compute what the loop
computes, and a binding has the same value in each of them.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.accesses import storages
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Buffer
from tilelang.ir.builder import as_body
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Load
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, ParallelLoop, Print, Stmt, Store
from tilelang.ir.visit import jumps, loads_of, needed_bindings, walk

_IN_ORDER = (Assume, Atomic, CallStmt, Print)


def distributed(loop: ParallelLoop) -> list[ParallelLoop]:
    """The loops that take the place of a parallel loop; itself alone where all its statements belong together."""
    body = flat_statements(loop.body)
    if jumps(loop.body) or any(isinstance(s, _IN_ORDER) for s in walk(loop.body)):
        return [loop]
    groups = [part for group in _groups([s for s in body if not isinstance(s, Bind)]) for part in _by_row(group, loop)]
    written = storages(loop.body).written
    bindings = {s.var: s for s in body if isinstance(s, Bind)}
    if len(groups) < 2 or any(load.buffer.storage in written for s in bindings.values() for load in loads_of(s.value)):
        return [loop]
    loops = []
    for group in groups:
        needed = {*needed_bindings(group, bindings), *group}
        own = as_body([s for s in body if s in needed], loop.body.loc)
        loops.append(dataclasses.replace(loop, body=own, loc=group[-1].loc if group[-1].loc.file else loop.loc))
    return loops


def _by_row(group: list[Stmt], loop: ParallelLoop) -> list[list[Stmt]]:
    """A group for each statement if each iteration has a row of its own in all memory that they write."""
    stores = [stmt for stmt in group if isinstance(stmt, Store)]
    written = {store.buffer.storage for store in stores}
    elements: list[Store | Load] = [*stores, *(load for store in stores for load in loads_of(store.value))]
    shared = [each.indices for each in elements if each.buffer.storage in written]
    is_own = all(len(indices) == 1 and same_expr(indices[0], loop.vars[0]) for indices in shared)
    return [[stmt] for stmt in group] if len(loop.vars) == 1 and len(stores) == len(group) and is_own else [group]


def _groups(statements: list[Stmt]) -> list[list[Stmt]]:
    """Statements that are connected by memory that one of them writes or allocates, in program order."""
    touched: list[frozenset[Buffer]] = []
    written: set[Buffer] = set()
    for stmt in statements:
        found = storages(stmt)
        allocated = {stmt.buffer.storage} if isinstance(stmt, Alloc) else set()
        touched.append(found.all | allocated)
        written |= found.written | allocated
    groups: list[tuple[list[Stmt], frozenset[Buffer]]] = []
    for stmt, buffers in zip(statements, touched, strict=True):
        shared = buffers & written
        joined = [group for group in groups if group[1] & shared]
        groups = [group for group in groups if not group[1] & shared]
        members = [s for group in joined for s in group[0]]
        groups.append(([*members, stmt], shared.union(*(group[1] for group in joined))))
    ordered = [sorted(group, key=statements.index) for group, _ in groups]
    return sorted(ordered, key=lambda group: statements.index(group[0]))
