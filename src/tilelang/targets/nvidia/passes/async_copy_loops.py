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
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from tilelang.analysis.access_width import Facts, nonzero_safe, vector_width
from tilelang.analysis.fixed_layouts import fixed_layouts
from tilelang.analysis.whole_stores import stores_all
from tilelang.arith.domain import Domain
from tilelang.errors import Note
from tilelang.ir.buffer import Scope
from tilelang.ir.builder import as_body
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Const, Expr, Load, Select, Var, int_const, select
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, Bind, For, If, Launch, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import substitute, walk_expr
from tilelang.lowering.alignment import starts_aligned
from tilelang.passes.base import PassContext
from tilelang.records import record
from tilelang.schedule.separate_loads import SeparateLoads, values_of
from tilelang.targets.nvidia.isa.cp_async import SIZES
from tilelang.targets.nvidia.machines import Feature


@record(slots=True)
class MarkedLoop:
    """A pipelined loop with its gather loops marked asynchronous.

    Attributes:
        loop: The loop.
        originals: The original of each marked gather loop.
        index_fragments: Allocations of the fragments that hold row indices.
    """

    loop: For
    originals: Mapping[ParallelLoop, ParallelLoop]
    index_fragments: list[Alloc]


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
        self._has_cp_async = context.target.has(Feature.CP_ASYNC)
        self._prefetch = context.prefetch_loops
        self._domain = domain.with_extents(launch.block_vars, launch.grid)
        self._facts = Facts(fixed_layouts(launch), nonzero_safe(launch)) if self._has_cp_async else Facts()
        self.notes: list[Note] = []

    def mark(self, loop: For, refused: AbstractSet[Stmt]) -> MarkedLoop:
        """A pipelined loop with its gather loops marked, except those that are refused.

        Where the compiler places the statements, the indices of rows are loaded from global memory by a loop of its
        own, so that the copies need not wait for them.
        """
        if not self._has_cp_async:
            return MarkedLoop(loop, {}, [])
        placed_by_user = loop.pipeline is not None and (loop.pipeline.order, loop.pipeline.stage) != (None, None)
        inside = self._domain.with_loop(loop.var, loop.start, loop.stop, loop.step)
        originals: dict[ParallelLoop, ParallelLoop] = {}
        index_fragments: list[Alloc] = []

        def statements(stmt: Stmt) -> Iterator[Stmt]:
            marked_loop = as_asynchronous(stmt, inside, self._facts) if isinstance(stmt, ParallelLoop) else None
            if marked_loop is None or stmt in refused or not isinstance(stmt, ParallelLoop):
                yield stmt
            elif not self._prefetch:
                text = "T.Parallel: does not run ahead: the versions of its tile would take too much shared memory"
                self.notes.append(Note(text, stmt.loc))
                yield stmt
            elif placed_by_user:
                originals[marked_loop] = stmt
                yield marked_loop
            else:
                separate = SeparateLoads(marked_loop, lambda store: _source(store.value, []))
                index_fragments.extend(separate.allocations())
                originals[separate.loop] = stmt
                yield from (*separate.loads, separate.loop)


        body = list(_replaced(loop.body, statements))
        return MarkedLoop(dataclasses.replace(loop, body=as_body(body, loop.body.loc)), originals, index_fragments)


def _replaced(stmt: Stmt, statements: Callable[[Stmt], Iterator[Stmt]]) -> Iterator[Stmt]:
    """What stands for a statement; a sequence remains one."""
    if isinstance(stmt, Seq):
        yield dataclasses.replace(stmt, body=tuple(new for s in stmt.body for new in _replaced(s, statements)))
    else:
        yield from statements(stmt)


def as_asynchronous(loop: ParallelLoop, domain: Domain, facts: Facts) -> ParallelLoop | None:
    """The loop with its store marked asynchronous; None if it is no gather that cp.async can do.

    Args:
        loop: Any parallel loop.
        domain: The ranges of the variables around it.
        facts: The fixed layouts of shared tiles, and the buffers whose safe value is not 0.
    """
    *names, last = flat_statements(loop.body) or [loop.body]
    if not all(isinstance(s, Bind) for s in names):
        return None
    store = _as_store(last)
    if store is None or store.buffer.scope is not Scope.SHARED or store.buffer.view_of is not None:
        return None
    conditions: list[Expr] = []
    load = _source(store.value, conditions)
    if load is None or load.dtype != store.buffer.dtype or load.buffer.storage in facts.nonzero_safe:
        return None
    if not stores_all(store, loop):
        return None
    chunk = _chunk_elements(store, load, conditions, values_of(names), loop, domain, facts)
    if not chunk:
        return None
    marked = dataclasses.replace(store, asynchronous=True)
    body = Seq((*names, marked), loc=loop.body.loc) if names else marked
    asynchronous = dataclasses.replace(loop, body=body, coalesced_width=loop.coalesced_width or chunk)
    return _with_rows_innermost(asynchronous, store)


def _with_rows_innermost(loop: ParallelLoop, store: Store) -> ParallelLoop | None:
    """The loop with the variable that runs along the tile's rows innermost; None if the user fixed the order."""
    order = sorted(range(len(loop.vars)), key=lambda n: loop.vars[n] is store.indices[-1])
    if order == list(range(len(order))):
        return loop
    if loop.layout is not None:
        return None
    variables, extents = tuple(loop.vars[n] for n in order), tuple(loop.extents[n] for n in order)
    return dataclasses.replace(loop, vars=variables, extents=extents)


def _as_store(stmt: Stmt) -> Store | None:
    """The statement as one store; a branch that stores the same element either way stores one of two values."""
    if isinstance(stmt, Store):
        return stmt
    if not isinstance(stmt, If) or stmt.group is not None or stmt.else_body is None:
        return None
    a, b = (_as_store(_single_statement(body)) for body in (stmt.then_body, stmt.else_body))
    if a is None or b is None or a.buffer is not b.buffer:
        return None
    if not all(same_expr(x, y) for x, y in zip(a.indices, b.indices, strict=True)):
        return None
    return dataclasses.replace(a, value=select(stmt.condition, a.value, b.value))


def _single_statement(body: Stmt) -> Stmt:
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


def _chunk_elements(
    store: Store,
    load: Load,
    conditions: list[Expr],
    values: Mapping[Var, Expr],
    loop: ParallelLoop,
    domain: Domain,
    facts: Facts,
) -> int:
    """The elements along a row of the tile that one instruction copies, or sets to 0; 0 if none can."""
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
