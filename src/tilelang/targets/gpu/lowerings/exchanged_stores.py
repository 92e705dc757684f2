"""`T.Parallel` loops that store to a shared tile, in an order in which the lanes of a warp do not meet in its banks.

    for v in range(8): tile[place(lane, v)] = x[v]
        =>   odd = lane // 4 % 2
             for v in (0, 1, 4, 5): tile[place(lane, v + 2 * odd)] = x[v + 2] if odd else x[v]
                                    tile[place(lane, v + 2 - 2 * odd)] = x[v] if odd else x[v + 2]

Takes a loop with its layout. Where lanes meet in banks that would not if half of them were some steps ahead, those
store the elements of such steps the other way round: values are in registers, and select instructions choose among
them. An accumulator of float32 that is stored in lines of 128 bytes, swizzled as the copy engine reads them, takes half
as many cycles of shared memory so. Invariant: the same elements get the same values, each by the same thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tilelang.analysis.parallel_legality import ParallelLegality
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var, as_expr, const, select
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import loads_of, substitute, variables_of
from tilelang.layout.digits import Mode
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES, conflicts, offsets, row_major
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.lowering import LoweringContext
from tilelang.records import record
from tilelang.targets.gpu.lowerings.loop_partition import LoopPartition, ValueDigit
from tilelang.targets.gpu.lowerings.parallel import plain_iteration
from tilelang.targets.gpu.lowerings.register_index import RegisterIndices
from tilelang.targets.gpu.lowerings.single_store import SingleStore, single_store

_ZERO = const(0, INT32)


@record(slots=True)
class _Exchange:
    """Which threads store which elements the other way round.

    Attributes:
        layout: The layout of the loop; the two elements differ in a digit of their own.
        digit: The number of that digit.
        bit: The bit that is set in the numbers of these threads.
    """

    layout: Fragment
    digit: int
    bit: int


def by_exchanged_stores(
    loop: ParallelLoop, legality: ParallelLegality, context: LoweringContext, build: Builder
) -> str:
    """Emits a loop so and gives the note on it; "" if that is not possible or gains nothing."""
    stored = single_store(loop, legality)
    if stored is None or loop.layout is None or context.thread is None:
        return ""
    exchange = _exchange(stored, loop.layout, context)
    if exchange is None:
        return ""
    build.emit(_emitted(stored, exchange, context.thread, context))
    return f"half of the threads store elements of '{stored.tile.name}' the other way round, so as not to meet in banks"


# -- which elements ---------------------------------------------------------------------------------------------------
def _exchange(stored: SingleStore, layout: Fragment, context: LoweringContext) -> _Exchange | None:
    """The exchange with the fewest bank conflicts, at most half of those without; None if there is none."""
    machine, itemsize = context.target.machine, stored.tile.dtype.storage_bytes
    if layout.cover != layout.shape or layout.replication > 1 or layout.threads < machine.warp_size:
        return None
    assert context.thread is not None
    partition = LoopPartition(layout, context.thread)
    digits, vector = [digit.mode for digit in partition.digits], partition.vector
    if vector is None or len(digits) != len(partition.layout.value):
        return None
    places = _places(stored, partition.layout, machine.warp_size, context)
    if places is None:
        return None
    run, at = vector.mode.size, next(n for n, digit in enumerate(partition.digits) if digit is vector)
    grid = places.reshape(len(places), *(mode.size for mode in reversed(digits)))
    lines = np.moveaxis(grid, len(digits) - at, -1)
    is_vector = (lines == lines[..., :1] + np.arange(run)).all() and (lines[..., 0] % run == 0).all()
    if not is_vector or run & run - 1 or run * itemsize > MAX_VECTOR_BYTES:
        return None

    def cost(values: np.ndarray) -> int:
        addresses = np.moveaxis(values.take(0, len(digits) - at), 0, -1) * itemsize
        return conflicts(addresses, run * itemsize, machine, "store")

    best, without = None, cost(grid)
    fewest = without // 2 + 1
    for number, mode in enumerate(digits):
        for lower in _halves(mode) if without and number != at else ():
            for bit in range(int(math.log2(machine.warp_size))):
                found = cost(_exchanged(grid, len(digits) - number, mode.size, lower, bit))
                if found < fewest:
                    fewest, best = found, _Exchange(*_with_own_digit(partition.layout, number, lower), bit)
    return best


def _halves(mode: Mode) -> Iterator[int]:
    """The places of a digit of size 2 within a digit: the sizes of what is below it."""
    lower = 1
    while mode.size % (2 * lower) == 0:
        yield lower
        lower *= 2


def _exchanged(grid: np.ndarray, axis: int, size: int, lower: int, bit: int) -> np.ndarray:
    """Where threads store in each step of the loop. Shapes: grid (threads, ...)."""
    split = grid.reshape(*grid.shape[:axis], size // (2 * lower), 2, lower, *grid.shape[axis + 1 :])
    later = (np.arange(len(grid)) >> bit & 1).astype(bool).reshape(-1, *(1 for _ in split.shape[1:]))
    return np.where(later, np.flip(split, axis + 1), split).reshape(grid.shape)


def _with_own_digit(layout: Fragment, number: int, lower: int) -> tuple[Fragment, int]:
    """The layout with a digit of size 2 within another one, and its number."""
    mode = layout.value[number]
    sizes = [(lower, 1), (2, lower), (mode.size // (2 * lower), 2 * lower)]
    parts = [Mode(size, tuple(step * by for step in mode.stride)) for size, by in sizes if size > 1]
    value = (*layout.value[:number], *parts, *layout.value[number + 1 :])
    return Fragment(layout.shape, layout.thread, value), number + (lower > 1)


def _places(stored: SingleStore, layout: Fragment, threads: int, context: LoweringContext) -> np.ndarray | None:
    """Where the first threads store their values, in elements, where all that blocks and loops decide is 0.

    None if that is not known. Shapes: (threads, values).
    """
    tile, table = stored.tile, layout.table[:threads]
    shape = tile.static_shape
    if shape is None or any(True for index in stored.indices for _ in loads_of(index)):
        return None
    env = {var: 0 for index in stored.indices for var in variables_of(index)}
    env.update(zip(stored.loop.vars, np.moveaxis(table, -1, 0), strict=True))
    indices = [np.broadcast_to(evaluate(index, env, exact=True), table.shape[:2]) for index in stored.indices]
    if any((index < 0).any() or (index >= extent).any() for index, extent in zip(indices, shape, strict=True)):
        return None
    known = context.shared_layouts.get(tile) or row_major(shape)
    versions = len(shape) - len(known.shape)
    inside = offsets(known)[tuple(indices[versions:])]
    first = np.zeros_like(inside)
    for index, extent in zip(indices[:versions], shape[:versions], strict=True):
        first = first * extent + index
    return np.asarray(first * math.prod(known.output_shape) + inside)


# -- the program of a thread ------------------------------------------------------------------------------------------
def _emitted(stored: SingleStore, exchange: _Exchange, thread: Expr, context: LoweringContext) -> Stmt:
    """For each pair of vectors: the values into registers, and both stores."""
    loc, tile = stored.loop.loc, stored.tile
    partition = LoopPartition(exchange.layout, thread)
    pair, vector = partition.digits[exchange.digit], partition.vector
    assert vector is not None
    run = vector.mode.size
    values = Buffer(f"{tile.name}_r", (as_expr(2 * run),), tile.dtype, Scope.LOCAL)
    fill = plain_iteration(stored.into(values, vector.var + pair.var * run), ParallelLegality(), context, partition)
    fill = _loop(pair, _loop(vector, fill, ForKind.VECTORIZED), ForKind.UNROLLED)
    odd = Var("odd", INT32, index=True)
    coordinates = RegisterIndices(partition, stored.loop.vars).coordinates
    places = [substitute(index, coordinates) for index in stored.indices]
    stores = []
    for number, place in enumerate((odd, 1 - odd)):
        lane = Var(vector.var.name, INT32, index=True)
        own, other = (Load(values, (lane + run * n,), tile.dtype) for n in (number, 1 - number))
        indices = tuple(substitute(index, {pair.var: place, vector.var: lane}) for index in places)
        store = Store(tile, indices, select(odd == 1, other, own), loc=stored.store.loc)
        stores.append(_loop(ValueDigit(lane, vector.mode), store, ForKind.VECTORIZED))
    body: Stmt = Seq((Alloc(values, loc=loc), fill, *stores), loc=loc)
    for digit in partition.digits:
        if digit is not pair and digit is not vector:
            body = _loop(digit, body, ForKind.UNROLLED)
    return Seq((Bind(odd, thread // 2**exchange.bit % 2, loc=loc), body), loc=loc)


def _loop(digit: ValueDigit, body: Stmt, kind: ForKind) -> Stmt:
    return For(digit.var, _ZERO, const(digit.mode.size, INT32), 1, kind, body, loc=body.loc)
