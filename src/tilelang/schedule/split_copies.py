"""Copies of a loop as loads to registers and stores from them: `T.copy`, and parallel loops that gather rows.

Takes a pipelined loop, finds its copies from global memory to whole shared tiles, and divides them. Indices of rows,
and what other parallel loops need from global memory to compute shared tiles, are loaded by loops of their own.
Invariant: in the order in which its statements stand, the divided loop means what the loop did.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from tilelang.analysis.whole_stores import stores_all
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Expr, Load, Select, const
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, Bind, For, ParallelLoop, Seq, Stmt, Store
from tilelang.lowering import by_loop
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy, is_load
from tilelang.records import record
from tilelang.schedule.loop_body import LoopBody, fills
from tilelang.schedule.separate_loads import SeparateLoads


def prefetchable(body: LoopBody) -> list[Copy | ParallelLoop]:
    """The copies of a loop that could run ahead of it, through registers or by an asynchronous unit."""
    found = ((n, s) for n, s in enumerate(body.statements) if isinstance(s, Copy | ParallelLoop))
    return [s for n, s in found if _is_candidate(s) and body.uses_first(filled_by(s).buffer.storage) == n]


def computing(body: LoopBody) -> list[ParallelLoop]:
    """The loops that compute shared tiles from what they load from global memory."""
    loops = [s for s in body.statements if isinstance(s, ParallelLoop) and not _is_candidate(s)]
    return [s for s in loops if _stored(s) is not None and s.layout is None and SeparateLoads(s).loads]


def filled_by(copy: Copy | ParallelLoop) -> Region:
    """What a copy fills."""
    if isinstance(copy, Copy):
        return copy.dst
    store = _stored(copy)
    assert store is not None
    shape = store.buffer.shape
    return Region(store.buffer, tuple(const(0, extent.dtype) for extent in shape), shape)


def _is_candidate(copy: Copy | ParallelLoop) -> bool:
    """Whether a copy from global memory fills a shared tile."""
    if isinstance(copy, ParallelLoop):
        store = _stored(copy)
        if store is None or copied_load(store.value) is None or store.value.dtype != store.buffer.dtype:
            return False
        return copy.layout is None and store.buffer.view_of is None and stores_all(store, copy)
    by_hand = copy.request is not None or copy.is_async or copy.barrier is not None or copy.layout is not None
    filled = fills(copy, copy.dst.buffer) and copy.dst.static_extent is not None
    return is_load(copy) and filled and not by_hand


def _stored(loop: ParallelLoop) -> Store | None:
    """The store to a shared tile that an iteration is, behind bindings."""
    *names, store = flat_statements(loop.body) or [loop.body]
    if not isinstance(store, Store) or store.buffer.scope is not Scope.SHARED:
        return None
    return store if all(isinstance(s, Bind) for s in names) else None


def copied_load(value: Expr) -> Load | None:
    """The load of an element of global memory that a value is, or a constant where a condition says so."""
    if isinstance(value, Select):
        if isinstance(value.b, Const):
            return copied_load(value.a)
        return copied_load(value.b) if isinstance(value.a, Const) else None
    return value if isinstance(value, Load) and value.buffer.scope is Scope.GLOBAL else None


# -- division ----------------------------------------------------------------------------------------------------
@record
class SplitCopies:
    """A loop with its copies divided.

    Attributes:
        loop: The loop.
        registers: The tiles in registers, to be allocated before the loop.
        loads: The loads of copies.
        stores: The stores of copies.
        needed_by: Other loads, and the statement that needs each.
        parts: What became of each statement that was divided.
    """

    loop: For
    registers: list[Alloc]
    loads: set[Stmt]
    stores: set[Stmt]
    needed_by: dict[Stmt, Stmt]
    parts: dict[Copy | ParallelLoop, set[Stmt]]


def split_copies(
    loop: For, copies: Collection[Copy | ParallelLoop], computed: Collection[ParallelLoop]
) -> SplitCopies:
    """The loop with each copy as a load to registers and a store from them, and loads of other loops as own loops.

    Args:
        loop: A pipelined loop.
        copies: Some of `prefetchable`.
        computed: Some of `computing`.
    """
    split = SplitCopies(loop, [], set(), set(), {}, {})
    statements: list[Stmt] = []
    for stmt in flat_statements(loop.body):
        if isinstance(stmt, Copy | ParallelLoop) and stmt in copies:
            statements += _split_copy(stmt, split)
        elif isinstance(stmt, ParallelLoop) and stmt in computed:
            statements += _with_separate_loads(stmt, SeparateLoads(stmt), split)
        else:
            statements.append(stmt)
    body = Seq(tuple(statements), loc=loop.body.loc)
    return dataclasses.replace(split, loop=dataclasses.replace(loop, body=body))


def _split_copy(copy: Copy | ParallelLoop, split: SplitCopies) -> list[Stmt]:
    """The load of a copy, its store, and before them the loads of indices."""
    filled = filled_by(copy)
    dtype = copy.src.dtype if isinstance(copy, Copy) else filled.dtype
    tile = Buffer(f"{filled.buffer.name}_next", filled.extent, dtype, Scope.FRAGMENT, loc=copy.loc)
    whole = Region(tile, tuple(const(0, extent.dtype) for extent in tile.shape), tile.shape)
    store = Copy(whole, filled, choice=by_loop.COPY.name, plan=ACCEPTED, loc=copy.loc)
    split.registers.append(Alloc(tile, loc=split.loop.loc))
    if isinstance(copy, Copy):
        load = dataclasses.replace(copy, dst=whole, choice=by_loop.LOOPS[type(copy)].name, plan=ACCEPTED)
        statements: list[Stmt] = [load]
    else:
        separate = SeparateLoads(copy, lambda kept: copied_load(kept.value), tile)
        statements = _with_separate_loads(copy, separate, split)
    split.loads.add(statements[-1])
    split.stores.add(store)
    split.parts[copy] = {*statements, store}
    return [*statements, store]


def _with_separate_loads(stmt: ParallelLoop, separate: SeparateLoads, split: SplitCopies) -> list[Stmt]:
    """A loop, and before it those that load what it needs."""
    split.registers.extend(separate.allocations())
    split.needed_by.update(dict.fromkeys(separate.loads, separate.loop))
    split.parts[stmt] = {*separate.loads, separate.loop}
    return [*separate.loads, separate.loop]
