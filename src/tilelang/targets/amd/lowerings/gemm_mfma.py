"""`T.gemm` by MFMA and WMMA; see `targets.gpu.lowerings.gemm_mma`, which has what all machines share.

The candidates are the machine's instructions, each with several register layouts of its operands. They are compared by
the clocks on the matrix unit, then by the elements to load, then by size (the largest first, so that the gemms of a
chain make the same choice whatever the order of their operands), then by the number of other instructions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilelang.dtypes import FLOAT32, DType
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import int_const
from tilelang.isa.instruction import Instruction
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.registers import Emitter
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm, GemmWarpPolicy
from tilelang.targets.amd.isa import transposed_read
from tilelang.targets.amd.isa.matrix import MatrixInstruction, Operands
from tilelang.targets.amd.isa.matrix_atom import MatrixAtom, matrix_multiply
from tilelang.targets.amd.isa.matrix_table import instructions_for
from tilelang.targets.amd.isa.scheduling import KEEP_MATRIX_ORDER, KEEP_ORDER
from tilelang.targets.amd.lowerings.joined_operand import JoinedOperand
from tilelang.targets.amd.lowerings.stored_share import StoredShare
from tilelang.targets.amd.lowerings.transposed_operand import TransposableOperand, TransposableShare
from tilelang.targets.amd.machines import CDNA_WAVE, RESERVED_REGISTERS, SIMDS, Feature, register_file
from tilelang.targets.gpu.lowerings.gemm_mma import RegisterGemm
from tilelang.targets.gpu.lowerings.mma_operand import ElementOperand, FragmentOperand, Operand, Share
from tilelang.targets.gpu.lowerings.row_order import HeldRows
from tilelang.targets.gpu.lowerings.warp_partition import WarpPartition, partition
from tilelang.targets.machine import Machine

_WORD_BYTES = 4
_FLOAT8_BITS = 8
_LOAD_CLOCKS = 64  # from LDS, at most if it is idle. Source: LLVM, SISchedule.td, "WriteLDS"
_MAX_NEIGHBOUR_BYTES = 8  # of contiguous columns in a lane; with more, the banks of two lanes would overlap


class GemmMatrix(RegisterGemm):
    """The lowering."""

    prefetch_barrier = KEEP_MATRIX_ORDER  # else clang sinks loads to their uses, to save registers, and waits for each

    def operand_classes(self, context: LoweringContext) -> tuple[type[Share], type[ElementOperand]]:
        """Operands that transposing reads can load, if the machine has such reads, or that are stored transposed."""
        if context.target.has(Feature.TRANSPOSED_READ):
            return TransposableShare, TransposableOperand
        return StoredShare, ElementOperand

    def max_registers(self, context: LoweringContext) -> int:
        """The registers of a lane with one work-group per compute unit, without reserved ones."""
        return _lane_registers(context) - RESERVED_REGISTERS[context.target.machine.warp_size]

    def order_barrier(self, context: LoweringContext) -> Instruction | None:
        """The one of the scheduler, unless tiles go to LDS directly, without stores that could move."""
        return None if context.target.has(Feature.DIRECT_TO_LDS_WIDE) else KEEP_ORDER

    def held_rows(
        self, atom: MatrixAtom, warps: WarpPartition, sets: int, registers: int, context: LoweringContext
    ) -> HeldRows | None:
        """All rows, where instructions of a row take as long as a load; one, where two sets of registers do not fit.

        Steps are loaded as a whole where not even one row fits, since clang finds an order for fewer registers, and
        where waves may ping-pong, for which the loads of one are a phase.
        """
        machine = context.target.machine
        if machine.warp_size == CDNA_WAVE and context.threads > SIMDS * CDNA_WAVE:
            return None
        if sets == 1:
            return HeldRows.ONE if registers <= _lane_registers(context) else None
        clocks = (warps.column_atoms - 1) * atom.rows * atom.columns * atom.depth * atom.matrix.cycles
        return HeldRows.ALL if warps.row_atoms > 1 and clocks >= _LOAD_CLOCKS else None

    def sums(self, op: Gemm) -> DType:
        """The accumulator dtype of instructions: that of C, or float32 for narrower ones."""
        return FLOAT32 if op.c.dtype.is_float and op.c.dtype.bits < FLOAT32.bits else op.c.dtype

    def choose(self, op: Gemm, context: LoweringContext) -> MatrixAtom | None:
        """The candidate with the least cost, the first of equals."""
        a, b = op.operands
        machine = context.target.machine
        found = instructions_for(machine, b, a, self.sums(op))
        if not found and (a, b) == ("tfloat32", "tfloat32"):  # which float32 holds exactly
            found = instructions_for(machine, FLOAT32, FLOAT32, self.sums(op))
        m, n, _ = (int_const(size) or 0 for size in op.sizes)
        atoms = (atom for matrix in found for atom in _candidates(matrix, op, machine))

        def cost(atom: MatrixAtom) -> tuple[int, ...]:
            warps = partition(m, n, atom, context.threads, op.policy, machine.warp_size)
            return _cost(atom, warps, op, machine)

        return min(atoms, key=cost, default=None)

    def lefts(self, atom: MatrixAtom) -> tuple[Fragment, ...]:
        """That of the instruction; without replicas if halves of a wave can exchange it."""
        joins = atom.matrix.operands is Operands.REPEATED and atom.rows == 1
        return (dataclasses.replace(atom, halves=True).a if joins else atom.a,)

    def exchanged_operand(self, emit: Emitter, share: Share, own: FragmentOperand, sets: int) -> Operand:
        """Operand A, of which the halves of a wave exchange what they hold."""
        return JoinedOperand(emit, share, own, sets)

    def note(self, op: Gemm, atom: MatrixAtom, context: LoweringContext) -> str:
        """Says that operands are converted to another dtype, for lack of an instruction."""
        if op.operands[0] == atom.matrix.b_dtype:
            return ""
        return f"{context.target.arch} multiplies no {op.multiplied}; {atom.matrix.b_dtype!s} holds them exactly"

    def instead(self, op: Gemm) -> str:
        """For float8, suggests float16, which has matrix instructions."""
        if not any(dtype.is_float and dtype.bits <= _FLOAT8_BITS for dtype in op.operands):
            return ""
        return "convert the tiles to float16 by T.copy, which holds them exactly, and multiply those"

    def instruction(self, atom: MatrixAtom) -> Instruction:
        """The instruction of an atom."""
        return matrix_multiply(atom)


def _lane_registers(context: LoweringContext) -> int:
    """The registers of a lane with one work-group per compute unit."""
    file = register_file(context.target.machine)
    waves = -(-context.threads // (context.target.machine.warp_size * SIMDS))
    return min(file.most, file.registers // max(waves, 1))


def _candidates(matrix: MatrixInstruction, op: Gemm, machine: Machine) -> Iterator[MatrixAtom]:
    """The register layouts of operands in which elements of one vector load are in consecutive registers."""
    _, n, k = (int_const(size) or 0 for size in op.sizes)
    size, _, step = matrix.shape
    itemsize = matrix.a_dtype.storage_bytes
    per_access = MAX_VECTOR_BYTES // itemsize
    in_order = MAX_VECTOR_BYTES // 2 if itemsize <= _WORD_BYTES else _WORD_BYTES  # columns of the sums
    shared = all(region.buffer.scope is Scope.SHARED for region in (op.a, op.b))
    k_run = _run(per_access if shared else in_order, k, matrix.k_groups, step)
    columns_first = _is_rows_first(op.b, not op.transpose_b)
    if columns_first and _reads_transposed(machine, matrix.a_dtype):
        in_order = min(in_order, matrix.c.values)  # then reads take whole chunks, which swizzles move
    column_run = _run(in_order, n, matrix.groups, size)
    depth = max(1, k_run // matrix.a.values)
    least = max(1, column_run // matrix.c.values)
    widths = [count for count in (1, 2, 4, 8) if _WORD_BYTES <= count * itemsize <= _MAX_NEIGHBOUR_BYTES]
    row_counts = widths if _is_rows_first(op.a, op.transpose_a) else []
    column_counts = widths if columns_first else []
    for rows in (1, *(count for count in row_counts if count > 1)):
        yield MatrixAtom(matrix, rows, least, depth, k_run, column_run, column_major=False)
        for columns in column_counts:
            if columns >= least and columns > 1:
                yield MatrixAtom(matrix, rows, columns, depth, k_run, column_run, column_major=True)


def _reads_transposed(machine: Machine, dtype: DType) -> bool:
    """Whether a machine has transposing reads for the elements of a dtype."""
    return machine.has(Feature.TRANSPOSED_READ) and dtype.storage_bytes == transposed_read.ITEM_BYTES


def _is_rows_first(region: Region, transposed: bool) -> bool:
    """Whether consecutive rows of A, or columns of B, are contiguous in shared memory."""
    axis = matrix_axes(region)[1 if transposed else 0]
    return region.buffer.scope is Scope.SHARED and axis == region.buffer.rank - 1


def _run(most: int, extent: int, groups: int, step: int) -> int:
    """The length of contiguous runs in a lane: the largest that needs no padding of the extent."""
    run = most
    while run > 1 and groups * run > step and extent % (groups * run):
        run //= 2
    return run


def _cost(atom: MatrixAtom, warps: WarpPartition, op: Gemm, machine: Machine) -> tuple[int, ...]:
    _, _, k = (int_const(size) or 0 for size in op.sizes)
    height, width, step = atom.shape
    steps = -(-k // step)
    per_atom = atom.rows * atom.columns * atom.depth
    multiplications = warps.row_atoms * warps.column_atoms * steps * per_atom
    loaded = warps.row_atoms * height + warps.column_atoms * width
    around = steps * (
        warps.row_atoms * _accesses(atom.a, op.a, op.transpose_a, atom.rows, atom.k_run, machine)
        + warps.column_atoms
        * _accesses(atom.b, op.b, not op.transpose_b, atom.columns if atom.column_major else 1, atom.k_run, machine)
    )
    work = (multiplications * max(1, atom.matrix.cycles), loaded, -atom.matrix.shape[0], multiplications + around)
    if op.policy is GemmWarpPolicy.FullRow:
        return (-warps.rows, *work)
    if op.policy is GemmWarpPolicy.FullCol:
        return (-warps.columns, *work)
    return work


def _accesses(
    fragment: Fragment, region: Region, transposed: bool, parted: int, k_run: int, machine: Machine
) -> int:
    """Instructions that load an operand of an atom to its registers."""
    itemsize, values = region.dtype.storage_bytes, fragment.values
    if region.buffer.scope is not Scope.SHARED:
        return 0
    if not _is_rows_first(region, transposed):
        return -(-values // min(k_run, MAX_VECTOR_BYTES // itemsize))
    if _reads_transposed(machine, region.dtype) and transposed_read.can_fill(fragment):
        return values // transposed_read.ROWS
    words = values * itemsize // _WORD_BYTES
    permuted = {1: 2 * words, 2: words}.get(itemsize, 0) if parted > 1 else 2 * words
    return -(-values // min(parted, MAX_VECTOR_BYTES // itemsize)) + permuted


LOWERING = GemmMatrix()
