"""`T.Parallel` loops that store results to a shared tile by matrix stores: `stmatrix`.

Takes a loop with its layout, emits what the executing thread does, where the layout is that of matrix instructions: in
each block of 8 x 8 iterations, lane l of a warp runs two neighbors along one dimension, at 2 * (l % 4), and l / 4 is
its place along another. Copies of accumulators are such loops, and so are those that do something with each sum on its
way. Invariant: the same elements get the same values as by stores of single elements, and whole warps come along.

Source: PTX ISA, "stmatrix"; "Matrix fragments for mma.m16n8k16" and "Register fragments for wgmma.mma_async.m64nNk16"
for where accumulators lie.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

from tilelang.analysis.parallel_legality import ParallelLegality
from tilelang.arith.affine import Linearizer
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.compare import KeyedExpr
from tilelang.ir.expr import Expr, Load, Var, as_expr, const
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, ParallelLoop, Seq, Stmt
from tilelang.ir.visit import substitute, walk_expr
from tilelang.layout.digits import Mode, coalesced, unit
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.operand_layout import is_contiguous_in_runs
from tilelang.lowering.regions import ZERO
from tilelang.records import record
from tilelang.targets.gpu.lowerings.loop_partition import LoopPartition, ValueDigit
from tilelang.targets.gpu.lowerings.parallel import plain_iteration
from tilelang.targets.gpu.lowerings.single_store import SingleStore, single_store
from tilelang.targets.nvidia.isa.ldmatrix import ROW_BYTES, ROWS, stmatrix
from tilelang.targets.nvidia.machines import WARP_SIZE, Feature

_UNIT_BITS = 16
_UNITS = ROW_BYTES * 8 // _UNIT_BITS  # in a row of a matrix
_PAIR = 2  # units of a register
_LANE_DIGITS = 5  # of size 2
_MAX_DIGITS = 2  # of size 2, of the number of a matrix among those of one instruction


@record(slots=True)
class _Blocks:
    """The digits of iterations that form blocks of 8 x 8.

    Attributes:
        pairs: The dimension along which lanes run two neighbors.
        lines: The one along which every fourth lane steps.
        matrices: The steps between blocks that one instruction stores, each a digit of size 2.
        rest: The other value digits: the instructions of a thread.
        warps: The digits of the warp's number.
    """

    pairs: int
    lines: int
    matrices: tuple[Mode, ...]
    rest: tuple[Mode, ...]
    warps: tuple[Mode, ...]

    @property
    def outer(self) -> tuple[Mode, ...]:
        """All steps between blocks."""
        return (*self.matrices, *self.rest, *self.warps)


class MatrixStores:
    """A loop that is done so.

    Attributes:
        tile: What is stored to.
    """

    def __init__(
        self,
        stored: SingleStore,
        context: LoweringContext,
        partition: LoopPartition,
        row: Region,
        within: int,
        *,
        trans: bool,
    ) -> None:
        """As `matrix_stores` found it.

        Args:
            stored: The loop.
            context: The threads.
            spread: Its iterations as loops of the executing thread: pairs, matrices, instructions.
            row: The row of a matrix whose address the executing lane gives.
            within: How many of these loops run through the matrices of one instruction.
            trans: Whether rows of a matrix in memory run along lines of lanes.
        """
        self._stored, self._context, self._partition, self._row = stored, context, partition, row
        self._inner, self._outer = partition.digits[: 1 + within], partition.digits[1 + within :]
        self._store = stmatrix(_PAIR**within, trans)
        self._values = _PAIR ** len(self._inner)
        self.tile = row.buffer

    def emit(self, build: Builder) -> None:
        """For each instruction: the values of its matrices into registers, and the store."""
        loc, tile, pairs = self._stored.loop.loc, self.tile, self._inner[0]
        values = Buffer(f"{tile.name}_r", (as_expr(self._values),), tile.dtype, Scope.LOCAL)
        first_value: Expr = pairs.var
        for n, digit in enumerate(self._inner[1:], 1):
            first_value = first_value + digit.var * _PAIR**n
        into = self._stored.into(values, first_value)
        fill = plain_iteration(into, ParallelLegality(), self._context, self._partition)
        for digit in self._inner:
            fill = _loop(digit, fill, ForKind.VECTORIZED if digit is pairs else ForKind.UNROLLED)
        held = Region(values, (ZERO,), values.shape)
        move = CallStmt(self._store, (self._row, held), (held,), (self._row,), loc=loc)
        body: Stmt = Seq((Alloc(values, loc=loc), fill, move), loc=loc)
        for digit in self._outer:
            body = _loop(digit, body, ForKind.UNROLLED)
        build.emit(body)


def by_matrix_stores(loop: ParallelLoop, legality: ParallelLegality, context: LoweringContext, build: Builder) -> str:
    """Emits a loop by matrix stores and gives the note on it; "" if that is not possible or gains nothing."""
    stores = None if loop.layout is None else matrix_stores(loop, loop.layout, legality, context)
    if stores is None:
        return ""
    stores.emit(build)
    return f"'{stores.tile.name}' is written by stores of 8x8 matrices"


def matrix_stores(
    loop: ParallelLoop, layout: Fragment, legality: ParallelLegality, context: LoweringContext
) -> MatrixStores | None:
    """Plan a loop as matrix stores; None if it cannot be, or gains nothing.

    Args:
        loop: The loop, of constant extents.
        layout: Which thread runs which iterations.
        legality: What must be kept in mind.
        context: The threads, and how tiles lie in shared memory.
    """
    stored = single_store(loop, legality)
    if stored is None or context.thread is None or not context.target.has(Feature.STMATRIX):
        return None
    blocks = _find_blocks(layout, _held(stored, context)) if stored.tile.dtype.bits == _UNIT_BITS else None
    if blocks is None or not blocks.matrices:
        return None
    run = _contiguous(stored.indices, loop.vars)
    if run not in (blocks.pairs, blocks.lines) or any(mode.stride[run] % _UNITS for mode in blocks.outer):
        return None
    rank = len(layout.shape)
    partition = LoopPartition(
        Fragment(layout.shape, layout.thread, (Mode(_PAIR, unit(rank, blocks.pairs)), *blocks.matrices, *blocks.rest)),
        context.thread,
    )
    across = blocks.pairs if run == blocks.lines else blocks.lines
    places = dict(zip(loop.vars, _first_of_row(blocks, across, partition, context.thread), strict=True))
    start = tuple(substitute(index, places) for index in stored.indices)
    row = Region(stored.tile, start, (*(const(1, INT32) for _ in start[1:]), const(_UNITS, INT32)))
    if not is_contiguous_in_runs(row, context.shared_layouts.get(stored.tile), _UNITS):
        return None
    return MatrixStores(stored, context, partition, row, len(blocks.matrices), trans=run == blocks.lines)


# -- layouts -------------------------------------------------------------------------------------------------------
def _held(stored: SingleStore, context: LoweringContext) -> tuple[Mode, ...]:
    """The digits of registers whose values are stored as they are, least significant first; () where others are made.

    The registers of an instruction follow each other, as those of an operand of a matrix instruction do.
    """
    value = stored.store.value
    if not isinstance(value, Load) or value.buffer not in context.fragments or value.dtype is not stored.tile.dtype:
        return ()
    if len(value.indices) != len(stored.loop.vars) or any(map(operator.is_not, value.indices, stored.loop.vars)):
        return ()
    return tuple(mode for digit in context.fragments[value.buffer].value for mode in _halved(digit))


def _find_blocks(layout: Fragment, held: Sequence[Mode]) -> _Blocks | None:
    """Find the blocks of a layout that lanes hold as matrices; None if none, or if they reach beyond the loop.

    Args:
        layout: The layout.
        held: The digits of registers that are stored as they are: an instruction stores the least significant ones.
    """
    thread = [mode for digit in layout.thread for mode in _halved(digit)]
    value = [mode for digit in layout.value for mode in _halved(digit) if not mode.is_broadcast]
    lanes, warps = thread[:_LANE_DIGITS], thread[_LANE_DIGITS:]
    if layout.cover != layout.shape or layout.replication > 1 or [mode.size for mode in lanes] != [2] * _LANE_DIGITS:
        return None
    rank = len(layout.shape)
    pairs, lines = (_axis(lanes[0].stride, _PAIR), _axis(lanes[2].stride, 1))
    if pairs is None or lines is None or pairs == lines:
        return None
    wanted = [unit(rank, pairs, step) for step in (2, 4)] + [unit(rank, lines, step) for step in (1, 2, 4)]
    pair = Mode(_PAIR, unit(rank, pairs))
    if [mode.stride for mode in lanes] != wanted or pair not in value:
        return None
    value.remove(pair)
    places = {mode: place for place, mode in enumerate(held)}
    in_order = sorted(value, key=lambda mode: places.get(mode, len(places)))
    matrices = [mode for mode in in_order if mode.size == 2][:_MAX_DIGITS]
    rest = coalesced([mode for mode in value if mode not in matrices])
    return _Blocks(pairs, lines, tuple(matrices), rest, coalesced(warps))


def _halved(mode: Mode) -> Iterable[Mode]:
    """A digit as digits of size 2, as far as these go, and what is left, least significant first."""
    size, stride = mode.size, mode.stride
    while size % 2 == 0:
        yield Mode(2, stride)
        size, stride = size // 2, tuple(2 * step for step in stride)
    if size > 1:
        yield Mode(size, stride)


def _axis(stride: Sequence[int], step: int) -> int | None:
    """The only dimension that a digit moves, by this step; None if it does something else."""
    moved = [axis for axis, by in enumerate(stride) if by]
    return moved[0] if len(moved) == 1 and stride[moved[0]] == step else None


def _first_of_row(blocks: _Blocks, across: int, partition: LoopPartition, thread: Expr) -> tuple[Expr, ...]:
    """Where the row begins whose address the executing lane gives: lane l that of row l % 8 of matrix l / 8."""
    shape = partition.layout.shape
    rank = len(shape)
    spare = WARP_SIZE // ROWS // _PAIR ** len(blocks.matrices)  # lanes whose addresses the instruction ignores
    idle = (Mode(spare, (0,) * rank),) if spare > 1 else ()
    lanes = (Mode(ROWS, unit(rank, across)), *blocks.matrices, *idle)
    instructions = partition.digits[1 + len(blocks.matrices) :]
    own = Fragment(shape, (*lanes, *blocks.warps), ()).coordinates(thread, ZERO)
    return tuple(_plus(at, axis, instructions) for axis, at in enumerate(own))


def _plus(at: Expr | int, axis: int, digits: Sequence[ValueDigit]) -> Expr:
    """A coordinate with the steps of digits added."""
    total = as_expr(at)
    for digit in digits:
        if digit.mode.stride[axis]:
            total = total + digit.var * digit.mode.stride[axis]
    return total


# -- loops ---------------------------------------------------------------------------------------------------------
def _loop(digit: ValueDigit, body: Stmt, kind: ForKind) -> Stmt:
    return For(digit.var, ZERO, const(digit.mode.size, INT32), 1, kind, body, loc=body.loc)


def _contiguous(indices: Sequence[Expr], variables: Sequence[Var]) -> int | None:
    """The variable whose steps are those of the last index and that no other index uses; None if there is none."""
    if not indices or not indices[-1].dtype.is_int:
        return None
    *others, last = indices
    elsewhere = {node for index in others for node in walk_expr(index) if isinstance(node, Var)}
    terms = Linearizer().sum(last).terms
    for axis, var in enumerate(variables):
        moved = {t: step for t, step in terms.items() if any(node is var for key in t for node in walk_expr(key.expr))}
        if var not in elsewhere and moved == {(KeyedExpr(var),): 1}:
            return axis
    return None
