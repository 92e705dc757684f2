"""`T.gemm` by `wgmma`, the matrix instructions of warpgroups.

Takes gemms with A in shared memory or a fragment, B in shared memory and C in a fragment; gives the program of one
thread: a fence, all wgmma instructions of its warpgroup with descriptors of shared operands, a commit and a wait.
Invariant: an accumulator is never zeroed by stores where the first instruction can overwrite it (`scale-d` 0). Where M
is no multiple of 64, the missing rows of A are whatever follows A in shared memory; their results are never read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from tilelang.dtypes import BOOL, FLOAT32, INT32, SCALARS, DType
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Expr, Var, binary, cast, const, int_const, unary
from tilelang.ir.plan import Plan
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.stmt import Bind, CallStmt
from tilelang.isa.instruction import Instruction
from tilelang.layout.boxes import Boxes
from tilelang.layout.constraints import Constraint, FixedLayout, Reason, SharedLayout
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.accumulator import Accumulator
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import ZERO, is_whole
from tilelang.lowering.registers import Emitter, emitter
from tilelang.lowering.value_permutation import ValuePermutation
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import MAX_PENDING, Gemm, GemmWarpPolicy
from tilelang.options import PassConfigKey
from tilelang.records import record
from tilelang.targets.gpu.lowerings.mma_operand import FragmentOperand, Share
from tilelang.targets.gpu.lowerings.warp_partition import WarpPartition, held, placed
from tilelang.targets.nvidia.isa.matrix_descriptor import STEP_BYTES
from tilelang.targets.nvidia.isa.quad_exchange import ELEMENT_BITS
from tilelang.targets.nvidia.isa.wgmma import (
    MATRIX_DESCRIPTOR,
    ROWS,
    WARPGROUP,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    WgmmaAtom,
    atom_of,
    columns,
    wgmma,
    wgmma_wait,
)
from tilelang.targets.nvidia.isa.wgmma_registers import define_operands, fence_operands, renew_operands
from tilelang.targets.nvidia.lowerings.exchanged_operand import ExchangedOperand
from tilelang.targets.nvidia.lowerings.wgmma_operand import Tile
from tilelang.targets.nvidia.machines import REGISTERS_PER_SM, Feature
from tilelang.targets.nvidia.requests import GEMM_WGMMA

_UINT64 = SCALARS["uint64"]
# Registers that an instruction needs beside its accumulator. Source: advice C7602 of ptxas 13.0: 154 for n256
# and 90 for n128 against the registers that a thread has when the kernel starts
_NON_ACCUMULATOR_REGISTERS = 26


@record
class WgmmaPlan(Plan):
    """The division of a gemm: the instruction, the warpgroups, and the swizzled boxes of shared operands.

    Attributes:
        atom: The instruction.
        groups: The partition of the tile among warpgroups.
        steps: Instructions along K.
        a: The boxes of A; None if it is a fragment.
        b: The boxes of B.
        renews_a: Whether A, in registers, is redefined for the instructions: see `passes/renew_held_operands.py`.
    """

    atom: WgmmaAtom
    groups: WarpPartition
    steps: int
    a: Boxes | None
    b: Boxes
    renews_a: bool = False

    def __str__(self) -> str:
        return f"{self.atom.name} of {self.groups.rows} x {self.groups.columns} warpgroups"

    def continues(self, other: Plan) -> bool:
        """Whether both have the same instructions, which run one after another. Source: PTX ISA, "wgmma.fence"."""
        return isinstance(other, WgmmaPlan) and (self.atom, self.groups) == (other.atom, other.groups)

    def tile_a(self, op: Gemm) -> tuple[Tile, Boxes] | None:
        """A in shared memory; None if it is a fragment."""
        return None if self.a is None else (_tile_a(op), self.a)

    def tile_b(self, op: Gemm) -> tuple[Tile, Boxes]:
        """B in shared memory."""
        return _tile_b(op, self.atom.n), self.b

    def left(self, op: Gemm) -> Fragment:
        """The fragment of A, as one of its buffer."""
        return self._left(op, self.atom.a)

    def left_as_sums(self, op: Gemm) -> Fragment | None:
        """A fragment of A that lies as sums do, for which threads exchange its elements; None if A cannot lie so."""
        return self._left(op, self.atom.a_as_sums) if op.a.dtype.bits == ELEMENT_BITS else None

    def _left(self, op: Gemm, part: Fragment) -> Fragment:
        m, _, k = (int_const(size) or 0 for size in op.sizes)
        return placed(self.groups.left(part, m, k), _axes_of_a(op), op.a.buffer.static_shape or ())

    def accumulator(self, op: Gemm) -> Fragment:
        """The fragment of C, as one of its buffer."""
        m, n, _ = (int_const(size) or 0 for size in op.sizes)
        return placed(self.groups.accumulator(self.atom, m, n), op.axes_of_c, op.c.buffer.static_shape or ())


class GemmWgmma:
    """The lowering."""

    name = GEMM_WGMMA

    def accepts(self, op: Gemm, context: LoweringContext) -> WgmmaPlan | Refusal:
        """The instruction, partition and boxes, or a refusal."""
        m = int_const(op.sizes[0]) or 0
        if 0 < m * 2 <= ROWS and not (op.request or context.has_producer):
            return Refusal(f"M is {m}: mma.sync needs no padding, and is no slower")
        refused = _target_refusal(op, context) or _operand_refusal(op)
        if refused:
            return Refusal(refused)
        accumulator = FLOAT32 if op.c.dtype == "bfloat16" else op.c.dtype
        if isinstance(op.plan, WgmmaPlan) and _still_fits(op.plan, op, context, accumulator):
            return op.plan  # of `choose_schedule`: since then, only stages, waits and clears have changed
        return _divided(op, context, accumulator)

    def pads_rows(self, op: Gemm) -> bool:
        """Whether the instructions have more rows than the tile."""
        return (int_const(op.sizes[0]) or 0) % ROWS != 0

    def constrain(self, op: Gemm, plan: WgmmaPlan, context: LoweringContext) -> Iterable[Constraint]:
        """The fragments of the instruction over the warpgroups, and the boxes that its descriptors require."""
        sums = held(plan.accumulator(op))
        yield FixedLayout(op.c.buffer, sums, Reason(f"{op.name} accumulates in it by {plan.atom.name}", op.loc))
        if plan.a is None:
            multiplies = Reason(f"{op.name} multiplies it by {plan.atom.name}", op.loc)
            sums_of_a = plan.left_as_sums(op)
            other = None if sums_of_a is None else held(sums_of_a)
            yield FixedLayout(op.a.buffer, held(plan.left(op)), multiplies, other)
        for found in (plan.tile_a(op), plan.tile_b(op)):
            if found is not None:
                tile, boxes = found
                reason = Reason(f"{op.name} reads it by {plan.atom.name}", op.loc)
                yield SharedLayout(tile.region.buffer, tile.layout(boxes), reason, required=True)

    def lower(self, op: Gemm, plan: WgmmaPlan, context: LoweringContext, build: Builder) -> None:
        """The program of the executing thread."""
        emit, thread = emitter(build, context, self.name)
        _Emission(op, context, plan, emit, thread).run()


class _Emission:
    """The program of one gemm."""

    def __init__(self, op: Gemm, context: LoweringContext, plan: WgmmaPlan, emit: Emitter, thread: Expr) -> None:
        self._op, self._context, self._plan, self._emit, self._thread = op, context, plan, emit, thread
        self._a, self._b = plan.tile_a(op), plan.tile_b(op)
        self._m, _, k = (int_const(size) or 0 for size in op.sizes)
        cover = plan.groups.rows * plan.groups.row_atoms * ROWS
        self._padded = self._a is not None and cover > self._m
        self._record = wgmma(
            plan.atom,
            a_in_registers=self._a is None,
            transpose_a=self._a is not None and self._a[0].transposed,
            transpose_b=self._b[0].transposed,
            overhang=0 if self._a is None else self._a[0].overhang(self._a[1], cover, k),
        )

    def run(self) -> None:
        """Emits the fence, the instructions, the commit and the wait."""
        op, plan, emit, build = self._op, self._plan, self._emit, self._emit.build
        groups, atom = plan.groups, plan.atom
        row_group, column_group = self._warpgroup()
        sums = Accumulator(emit, op, self._context, plan.accumulator(op), atom.c_dtype, run=atom.c.values)
        sums.load(clears=False)
        of_a = None if self._a is None else self._descriptor(self._a, row_group, groups.row_atoms * ROWS)
        of_b = self._descriptor(self._b, column_group, groups.column_atoms * atom.n)
        held_a = self._a_in_registers(row_group) if of_a is None else None
        scale_d = self._scale_d()
        self._fence_operands(sums, held_a)
        build.emit(CallStmt(WGMMA_FENCE, ()))

        def multiply(step: Expr, i: Expr, j: Expr) -> None:
            c = sums.registers(i * ROWS, j * atom.n)
            if self._a is not None and of_a is not None:
                a: Expr | Region = self._at(self._a, of_a, i * ROWS, step * atom.k)
                reads: tuple[Region, ...] = (op.a, op.b, c)
            else:
                assert held_a is not None
                a = held_a.registers(i, step)
                reads = (a, op.b, c)
            b = self._at(self._b, of_b, j * atom.n, step * atom.k)
            accumulate = scale_d if plan.steps == 1 else emit.short(binary(BinaryOp.OR, step > 0, scale_d))
            first = (row_group * groups.row_atoms + i) * ROWS
            rows = (emit.short(binary(BinaryOp.MIN, self._m - first, ROWS)),) if self._padded else ()
            build.emit(CallStmt(self._record, (c, a, b, accumulate, *rows), reads, (c,)))

        def along_n(step: Expr, i: Expr) -> None:
            emit.loop("j", groups.column_atoms, lambda j: multiply(step, i, j))

        emit.loop("k_step", plan.steps, lambda step: emit.loop("i", groups.row_atoms, lambda i: along_n(step, i)))
        build.emit(CallStmt(WGMMA_COMMIT, ()))
        # registers that are converted are overwritten for the next gemm, exchanged ones for the next of this operator
        overwrites = isinstance(held_a, ExchangedOperand) and not op.follows_wait
        overwrites = overwrites or isinstance(held_a, FragmentOperand) and held_a.moves
        pending = 0 if sums.is_converted or overwrites else op.wait
        if pending >= 0:
            tiles = tuple(region for region in (op.a, op.b) if region.buffer.scope is Scope.SHARED)
            build.emit(CallStmt(wgmma_wait(pending), (), tiles))
        if pending == 0:
            self._fence(fence_operands, sums.array)
        sums.store()

    def _warpgroup(self) -> tuple[Expr, Expr]:
        """The executing warpgroup's index along M and along N.

        Not made warp-uniform by a shuffle: ptxas keeps descriptors in uniform registers without it, and the shuffle
        would delay the first wgmma after the wait for a tile.
        """
        groups, count = self._plan.groups, self._context.threads // WARPGROUP
        number = self._emit.bind("warpgroup", self._thread // WARPGROUP, count)
        row = ZERO if groups.rows == 1 else number if groups.rows == count else number % groups.rows
        return row, ZERO if groups.columns == 1 else number if groups.columns == count else number // groups.rows

    def _descriptor(self, operand: tuple[Tile, Boxes], group: Expr, rows: int) -> Expr:
        """The descriptor of the first rows of the executing warpgroup."""
        tile, boxes = operand
        buffer, build = tile.region.buffer, self._emit.build
        whole = Var(f"{buffer.name}_matrix", _UINT64)
        first = Region(buffer, tile.region.start, tuple(const(1, INT32) for _ in tile.region.start))
        numbers = (const(number, INT32) for number in tile.distances(boxes))
        build.emit(CallStmt(MATRIX_DESCRIPTOR, (first, *numbers), result=whole))
        if int_const(group) == 0:
            return whole
        part = Var(f"{buffer.name}_rows", _UINT64)
        build.emit(Bind(part, self._advanced(whole, tile.chunks(boxes, group * rows, ZERO))))
        return part

    def _at(self, operand: tuple[Tile, Boxes], descriptor: Expr, row: Expr, k: Expr) -> Expr:
        """The descriptor of the part that begins at a row of the warpgroup and at k."""
        tile, boxes = operand
        return self._advanced(descriptor, tile.chunks(boxes, row, k))

    def _advanced(self, descriptor: Expr, chunks: Expr) -> Expr:
        short = self._emit.short(chunks)
        return descriptor if int_const(short) == 0 else descriptor + cast(short, _UINT64)

    def _a_in_registers(self, row_group: Expr) -> FragmentOperand | ExchangedOperand:
        """A in registers, in the order of the instruction; all steps along K, since their instructions overlap."""
        op, plan, emit = self._op, self._plan, self._emit
        row_axis, k_axis = _axes_of_a(op)
        m, _, k = (int_const(size) or 0 for size in op.sizes)
        cover = plan.groups.rows * plan.groups.row_atoms * ROWS
        share = Share(op.a, row_axis, k_axis, m, k, plan.atom.a, plan.groups.row_atoms, cover)
        origin = emit.short(row_group * (plan.groups.row_atoms * ROWS))
        lane = emit.short(self._thread % WARPGROUP)
        actual, registers = self._context.fragments[op.a.buffer], self._context.registers[op.a.buffer]
        as_sums, operand_a = plan.left_as_sums(op), plan.left(op)
        operand: FragmentOperand | ExchangedOperand
        if as_sums is not None and not actual.same_owners(held(operand_a)):
            order, own = ValuePermutation(actual, as_sums), dataclasses.replace(share, atom=plan.atom.a_as_sums)
            held_a = FragmentOperand(emit, own, lane, origin, order, registers, plan.steps)
            operand = ExchangedOperand(emit, share, held_a, plan.steps)
        else:
            order = ValuePermutation(actual, operand_a)
            operand = FragmentOperand(emit, share, lane, origin, order, registers, plan.steps)
        emit.loop("k_step", plan.steps, lambda step: operand.fetch(step, tail=False))
        return operand

    def _fence_operands(self, sums: Accumulator, held_a: FragmentOperand | ExchangedOperand | None) -> None:
        """Fences the registers of the accumulator and of A, except those that pending instructions already use.

        Those that the first instruction overwrites are defined where others may be in flight.
        """
        in_flight = self._op.wait != 0 and not self._op.follows_wait
        used = [] if self._op.always_clears or in_flight else [sums.array]
        fences = [(fence_operands, registers) for registers in used]
        if held_a is not None:
            fences.append((renew_operands if self._plan.renews_a else fence_operands, held_a.array))
        for fence, registers in fences:
            self._fence(fence, registers)
        if self._op.always_clears and self._op.wait:
            define = define_operands(sums.array.dtype, int_const(sums.array.extent[0]) or 0)
            self._emit.build.emit(CallStmt(define, (sums.array,), (), (sums.array,)))

    def _fence(self, fence: Callable[[DType, int], Instruction], registers: Region) -> None:
        record = fence(registers.dtype, int_const(registers.extent[0]) or 0)
        self._emit.build.emit(CallStmt(record, (registers,), (registers,), (registers,)))

    def _scale_d(self) -> Expr:
        """The predicate `scale-d`: whether the instruction adds to the accumulator."""
        clear = self._op.clear_accum
        if clear is None or isinstance(clear, Const):
            return const(clear is None or not clear.value, BOOL)
        keep = Var("scale_d", BOOL)
        self._emit.build.emit(Bind(keep, unary(UnaryOp.NOT, clear)))
        return keep


# -- the plan ------------------------------------------------------------------------------------------------------


def _target_refusal(op: Gemm, context: LoweringContext) -> str:
    if not context.target.has(Feature.WGMMA):
        return f"{context.target.arch} has no wgmma"
    if not context.options.async_mma:
        return f"{PassConfigKey.TL_DISABLE_WGMMA.value} is set"
    if context.threads % WARPGROUP or not context.threads:
        return f"{context.threads} threads are no whole number of warpgroups"
    if (op.a.dtype, op.b.dtype) != op.operands:
        return f"its operands are {op.a.dtype!s} and {op.b.dtype!s}"
    return "" if op.wait <= MAX_PENDING else f"{op.wait} groups cannot be left pending"


def _operand_refusal(op: Gemm) -> str:
    for letter, region in zip("ABC", (op.a, op.b, op.c), strict=True):
        scope = region.buffer.scope
        allowed = {"A": (Scope.SHARED, Scope.FRAGMENT), "B": (Scope.SHARED,), "C": (Scope.FRAGMENT,)}[letter]
        if scope not in allowed:
            return f"{letter} is in scope {scope.value}"
        if scope is Scope.FRAGMENT and not is_whole(region):
            return f"{letter} is a part of a fragment"
        rank = region.buffer.rank
        if scope is Scope.SHARED and matrix_axes(region) != (rank - 2, rank - 1):
            return f"the matrix {letter} is not in the last two dimensions of its buffer"
        if scope is Scope.SHARED and (region.buffer.view_of is not None or region.buffer.static_shape is None):
            return f"{letter} is a view, or has no constant shape"
    return ""


def _divided(op: Gemm, context: LoweringContext, sums: DType) -> WgmmaPlan | Refusal:
    m, n, k = (int_const(size) or 0 for size in op.sizes)
    if not (m and n and k):
        return Refusal("its extents are not constants above zero")
    operand = op.a.dtype
    if atom_of(*op.operands, sums, columns(operand)[0]) is None:
        return Refusal(f"wgmma does not multiply {op.multiplied} with an accumulator of {sums!s}")
    held_a = op.a.buffer.scope is Scope.FRAGMENT
    for letter, contiguous in zip("AB", (op.transpose_a and not held_a, not op.transpose_b), strict=True):
        if contiguous and operand.bits != 16:
            return Refusal(f"{letter} of {operand!s} is not contiguous along K")
    depth = STEP_BYTES * 8 // operand.bits
    if k % depth:
        return Refusal(f"K is {k}, no multiple of {depth}")
    least = columns(operand)[0]
    if n % least:
        return Refusal(f"N is {n}, no multiple of {least}")
    refused = Refusal(f"its warpgroups do not divide the tile of {m} x {n}")
    for groups, width in _partitions(m, n, op, context):
        atom = atom_of(*op.operands, sums, width)
        assert atom is not None
        a = None if held_a else _boxes(_tile_a(op), context)
        b = _boxes(_tile_b(op, width), context)
        if isinstance(a, Refusal):
            refused = a
        elif isinstance(b, Refusal):
            refused = b
        else:
            return WgmmaPlan(atom, groups, k // depth, a, b)
    return refused


def _still_fits(plan: WgmmaPlan, op: Gemm, context: LoweringContext, accumulator: DType) -> bool:
    """Whether a plan divides the operator, among these threads and with its operands where they are now."""
    m, n, k = (int_const(size) or 0 for size in op.sizes)
    atom, groups = plan.atom, plan.groups
    covered = (-(-m // ROWS), n, k) == (
        groups.rows * groups.row_atoms, groups.columns * groups.column_atoms * atom.n, plan.steps * atom.k
    )
    if not covered or groups.rows * groups.columns * WARPGROUP != context.threads:
        return False
    if atom_of(*op.operands, accumulator, atom.n) != atom:
        return False
    if (plan.a is None) is not (op.a.buffer.scope is Scope.FRAGMENT):
        return False
    tiles = [tile for tile in (plan.tile_a(op), plan.tile_b(op)) if tile is not None]
    return all(_boxes(tile, context) == boxes for tile, boxes in tiles)


def _tile_a(op: Gemm) -> Tile:
    return Tile(op.a, op.transpose_a, int_const(op.sizes[0]) or 0, ROWS)


def _tile_b(op: Gemm, width: int) -> Tile:
    return Tile(op.b, not op.transpose_b, int_const(op.sizes[1]) or 0, width)


def _axes_of_a(op: Gemm) -> tuple[int, int]:
    """The dimensions of A's buffer along M and along K."""
    row, column = matrix_axes(op.a)
    return (column, row) if op.transpose_a else (row, column)


def _boxes(tile: Tile, context: LoweringContext) -> Boxes | Refusal:
    """The boxes in which an operand lies, or may lie."""
    buffer = tile.region.buffer
    given = context.shared_layouts.get(buffer)
    boxes = next(tile.candidates(), None) if given is None else tile.boxes_of(given)
    if boxes is None:
        what = "cannot be cut into boxes" if given is None else "has a layout"
        return Refusal(f"'{buffer.name}' {what} that descriptors {'can' if given is None else 'cannot'} describe")
    return boxes


def _partitions(m: int, n: int, op: Gemm, context: LoweringContext) -> Iterator[tuple[WarpPartition, int]]:
    """Partitions of the tile among warpgroups, with the columns of their instructions; best first.

    Rows are split first, columns first under `GemmWarpPolicy.FullCol`.
    """
    count, tall = context.threads // WARPGROUP, -(-m // ROWS)
    splits = [rows for rows in range(1, count + 1) if count % rows == 0]
    if op.policy is not GemmWarpPolicy.FullCol:
        splits.reverse()
    # the block may have a producer as well, so that each thread starts with fewer registers
    most = 2 * (min(256, REGISTERS_PER_SM // (context.threads + WARPGROUP) // 8 * 8) - _NON_ACCUMULATOR_REGISTERS)
    for rows in splits:
        across = count // rows
        if tall % rows or n % across:
            continue
        for width in sorted(columns(op.a.dtype), reverse=True):
            if n // across % width == 0 and width <= most:
                yield WarpPartition(rows, across, 1, tall // rows, n // across // width), width
                break


LOWERING = GemmWgmma()
