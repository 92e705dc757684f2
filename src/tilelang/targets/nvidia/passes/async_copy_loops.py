"""Parallel loops that gather rows from global memory into a shared tile, and can do so asynchronously.

Takes tile-level loops; gives those that cp.async can do, with their store marked asynchronous. Invariant: such a loop
writes all of its tile, each element once and without reading it, with an element of global memory of the same dtype or
with zero; along the tile's rows it copies runs of at least 4 bytes that are aligned on both sides.

    for i, j in T.Parallel(64, 128):
        tile[i, j] = T.if_then_else(i < count, rows[index[i], j], 0)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from tilelang.analysis.access_width import Facts, vector_width
from tilelang.analysis.fixed_layouts import fixed_layouts
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32
from tilelang.errors import Note
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Const, Expr, Load, Select, Var, int_const, select
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, Bind, For, If, Launch, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, substitute, walk_expr
from tilelang.lowering.alignment import starts_aligned
from tilelang.passes.base import PassContext
from tilelang.records import record
from tilelang.schedule.async_copies import with_safe_values
from tilelang.targets.nvidia.isa.cp_async import SIZES
from tilelang.targets.nvidia.machines import Feature


@record(slots=True)
class Marks:
    """A pipelined loop with its gather loops marked.

    Attributes:
        loop: The loop.
        originals: The original of each marked loop.
        tables: The fragments that hold the indices of rows.
    """

    loop: For
    originals: Mapping[ParallelLoop, ParallelLoop]
    tables: list[Alloc]


class AsyncCopyLoops:
    """The loops of one launch that may copy asynchronously.

    Args:
        launch: The launch.
        domain: The ranges of the variables around it.
        context: The target, and whether such loops may be pipelined.

    Attributes:
        notes: On loops that may not be pipelined.
    """

    def __init__(self, launch: Launch, domain: Domain, context: PassContext) -> None:
        self._possible = context.target.has(Feature.CP_ASYNC)
        self._wanted = context.prefetch_loops
        self._domain = domain.with_extents(launch.block_vars, launch.grid)
        self._facts = Facts(fixed_layouts(launch), with_safe_values(launch)) if self._possible else Facts()
        self.notes: list[Note] = []

    def marked(self, loop: For, refused: AbstractSet[Stmt]) -> Marks:
        """A pipelined loop with its gather loops marked, except those that are refused.

        Where the compiler places the statements, the indices of rows are loaded from global memory by a loop of its
        own, so that the copies need not wait for them.
        """
        marks = Marks(loop, {}, [])
        if not self._possible:
            return marks
        by_hand = loop.pipeline is not None and (loop.pipeline.order, loop.pipeline.stage) != (None, None)
        inside = self._domain.with_loop(loop.var, loop.start, loop.stop, loop.step)
        originals: dict[ParallelLoop, ParallelLoop] = {}

        def mark(stmt: Stmt) -> Iterator[Stmt]:
            if isinstance(stmt, Seq):
                yield dataclasses.replace(stmt, body=tuple(new for s in stmt.body for new in mark(s)))
                return
            marked_loop = as_asynchronous(stmt, inside, self._facts) if isinstance(stmt, ParallelLoop) else None
            if marked_loop is None or stmt in refused or not isinstance(stmt, ParallelLoop):
                yield stmt
            elif not self._wanted:
                text = "T.Parallel: does not run ahead: the versions of its tile would take too much shared memory"
                self.notes.append(Note(text, stmt.loc))
                yield stmt
            else:
                tables = Tables(marked_loop)
                marked_loop = marked_loop if by_hand else tables.loop()
                marks.tables.extend(tables.allocations())
                originals[marked_loop] = stmt
                yield from tables.fills()
                yield marked_loop

        body = list(mark(loop.body))
        marked_loop = dataclasses.replace(loop, body=as_body(body, loop.body.loc))
        return Marks(marked_loop, originals, marks.tables)


class Tables:
    """Fragments for the indices that a marked loop loads from global memory to find its rows.

    Args:
        loop: The loop.
    """

    def __init__(self, loop: ParallelLoop) -> None:
        self._loop = loop
        self._found: list[tuple[Load, Buffer, tuple[int, ...]]] = []

    def loop(self) -> ParallelLoop:
        """The loop over the tables."""
        names = flat_statements(self._loop.body)
        store = names.pop()
        assert isinstance(store, Store)
        resolve = _Resolved(_values(names))
        resolved = resolve.rebuild_stmt(store)
        assert isinstance(resolved, Store)
        load = _source(resolved.value, [])
        assert load is not None
        from_tables = _FromTables(self, load)
        gathering = from_tables.rebuild_stmt(resolved) or resolved
        promises = []
        tables = len(self._found)
        for name in names:
            if isinstance(name, Assume):
                value = from_tables.expr(resolve.expr(name.value))
                if len(self._found) == tables:
                    promises.append(dataclasses.replace(name, value=value))
                del self._found[tables:]  # an assumption alone loads nothing
        body = Seq((*promises, gathering), loc=self._loop.body.loc) if promises else gathering
        return dataclasses.replace(self._loop, body=body)

    def element(self, load: Load) -> Load | None:
        """The element of a table that replaces a load; None if the load does not select rows."""
        *outer, along = self._loop.vars
        used = set(walk_expr(load))
        axes = tuple(n for n, var in enumerate(outer) if var in used)
        if load.buffer.scope is not Scope.GLOBAL or along in used or not axes or load.dtype.lanes > 1:
            return None
        table = next((buffer for known, buffer, _ in self._found if same_expr(known, load)), None)
        if table is None:
            extents = tuple(self._loop.extents[n] for n in axes)
            table = Buffer(f"{load.buffer.name}_rows", extents, load.dtype, Scope.FRAGMENT, loc=self._loop.loc)
            self._found.append((load, table, axes))
        return Load(table, tuple(outer[n] for n in axes), load.dtype)

    def allocations(self) -> list[Alloc]:
        """The allocations of the tables."""
        return [Alloc(table, loc=self._loop.loc) for _, table, _ in self._found]

    def fills(self) -> Iterator[ParallelLoop]:
        """The loops that load the tables."""
        for load, table, axes in self._found:
            new = {self._loop.vars[n]: Var(self._loop.vars[n].name, INT32, index=True) for n in axes}
            store = Store(table, tuple(new.values()), substitute(load, new), loc=self._loop.body.loc)
            yield ParallelLoop(tuple(new.values()), table.shape, store, loc=self._loop.loc)


class _Resolved(Rewriter):
    """Replaces variables by their values."""

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        self._values_of = values

    def expr(self, node: Expr) -> Expr:
        return substitute(node, self._values_of)


class _FromTables(Rewriter):
    """Replaces the loads of a loop by its tables, except the load of the rows."""

    def __init__(self, tables: Tables, rows: Load) -> None:
        self._tables, self._rows = tables, rows

    def expr(self, node: Expr) -> Expr:
        found = self._tables.element(node) if isinstance(node, Load) and node is not self._rows else None
        return found if found is not None else self.rebuild_expr(node)


def as_asynchronous(loop: ParallelLoop, domain: Domain, facts: Facts) -> ParallelLoop | None:
    """The loop with its store marked asynchronous; None if it is no such copy.

    Args:
        loop: Any parallel loop.
        domain: The ranges of the variables around it.
        facts: The fixed layouts of shared tiles, and the buffers whose safe value is not 0.
    """
    *names, last = flat_statements(loop.body) or [loop.body]
    if not all(isinstance(s, Bind) for s in names):
        return None
    store = _one_store(last)
    if store is None or store.buffer.scope is not Scope.SHARED or store.buffer.view_of is not None:
        return None
    conditions: list[Expr] = []
    load = _source(store.value, conditions)
    if load is None or load.dtype != store.buffer.dtype or load.buffer.storage in facts.nonzero_safe:
        return None
    if not _writes_all(store, loop):
        return None
    run = _run(store, load, conditions, _values(names), loop, domain, facts)
    if not run:
        return None
    marked = dataclasses.replace(store, asynchronous=True)
    body = Seq((*names, marked), loc=loop.body.loc) if names else marked
    asynchronous = dataclasses.replace(loop, body=body, coalesced_width=loop.coalesced_width or run)
    return _along_rows(asynchronous, store)


def _along_rows(loop: ParallelLoop, store: Store) -> ParallelLoop | None:
    """The loop with the variable that runs along the tile's rows innermost; None if the user fixed the order."""
    order = sorted(range(len(loop.vars)), key=lambda n: loop.vars[n] is store.indices[-1])
    if order == list(range(len(order))):
        return loop
    if loop.layout is not None:
        return None
    variables, extents = tuple(loop.vars[n] for n in order), tuple(loop.extents[n] for n in order)
    return dataclasses.replace(loop, vars=variables, extents=extents)


def _one_store(stmt: Stmt) -> Store | None:
    """The statement as one store; a branch that stores the same element either way stores one of two values."""
    if isinstance(stmt, Store):
        return stmt
    if not isinstance(stmt, If) or stmt.group is not None or stmt.else_body is None:
        return None
    a, b = (_one_store(_alone(body)) for body in (stmt.then_body, stmt.else_body))
    if a is None or b is None or a.buffer is not b.buffer:
        return None
    if not all(same_expr(x, y) for x, y in zip(a.indices, b.indices, strict=True)):
        return None
    return dataclasses.replace(a, value=select(stmt.condition, a.value, b.value))


def _alone(body: Stmt) -> Stmt:
    statements = flat_statements(body)
    return statements[0] if len(statements) == 1 else body


def _source(value: Expr, conditions: list[Expr]) -> Load | None:
    """The load of global memory in a select between it and 0; collects the conditions."""
    if isinstance(value, Load):
        return value if value.buffer.scope is Scope.GLOBAL and value.dtype == value.buffer.dtype else None
    if not isinstance(value, Select):
        return None
    conditions.append(value.condition)
    if _is_zero(value.b):
        return _source(value.a, conditions)
    return _source(value.b, conditions) if _is_zero(value.a) else None


def _is_zero(value: Expr) -> bool:
    """Whether all bits of a value are 0."""
    return isinstance(value, Const) and value.value == 0 and math.copysign(1, value.value) > 0


def _writes_all(store: Store, loop: ParallelLoop) -> bool:
    """Whether the loop's iterations are the elements of the tile."""
    extents = dict(zip(loop.vars, map(int_const, loop.extents), strict=True))
    shape = store.buffer.static_shape
    if shape is None or store.buffer.strides is not None or len(set(loop.vars)) != len(loop.vars):
        return False
    named: set[Var] = set()
    for index, extent in zip(store.indices, shape, strict=True):
        if isinstance(index, Var) and index in extents and index not in named and extents[index] == extent:
            named.add(index)
        elif extent != 1 or int_const(index) != 0:
            return False
    return all(var in named or extents[var] == 1 for var in loop.vars)


def _values(names: list[Stmt]) -> Mapping[Var, Expr]:
    """The values of the variables that an iteration binds, without variables of each other."""
    values: dict[Var, Expr] = {}
    for bind in names:
        assert isinstance(bind, Bind)
        values[bind.var] = substitute(bind.value, values)
    return values


def _run(
    store: Store,
    load: Load,
    conditions: list[Expr],
    values: Mapping[Var, Expr],
    loop: ParallelLoop,
    domain: Domain,
    facts: Facts,
) -> int:
    """How many neighbors along the tile's rows one instruction copies, or sets to 0; 0 if none can."""
    var = store.indices[-1] if store.indices else None
    if not isinstance(var, Var) or store.buffer.dtype.lanes > 1:
        return 0
    if any(node is var for condition in conditions for node in walk_expr(substitute(condition, values))):
        return 0
    extents = dict(zip(loop.vars, loop.extents, strict=True))
    trip_count = int_const(extents.pop(var)) or 0
    inside = domain.with_extents(extents.keys(), extents.values())
    source = tuple(substitute(index, values) for index in load.indices)
    lanes = min(
        vector_width(buffer, indices, var, trip_count, inside, facts)
        for buffer, indices in ((store.buffer, store.indices), (load.buffer, source))
    )
    size = lanes * store.buffer.dtype.storage_bytes
    return lanes if size in SIZES and starts_aligned(load.buffer, size) else 0
