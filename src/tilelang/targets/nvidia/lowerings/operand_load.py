"""Loads of one step of a gemm's operand from shared memory to the fragment that `mma.sync` takes.

Takes copies that `schedule.fragment_prefetch` has divided off a gemm; gives the loads of the executing thread, by
`ldmatrix` where possible. Invariant: the registers of the fragment are in the order of the instruction's.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.buffer import Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import int_const
from tilelang.ir.plan import Plan
from tilelang.layout.constraints import Constraint
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import ZERO
from tilelang.lowering.registers import emitter
from tilelang.ops.copy import Copy
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.schedule.fragment_prefetch import OperandLoads
from tilelang.targets.gpu.lowerings.gemm_mma import MmaPlan
from tilelang.targets.gpu.lowerings.warp_partition import WarpPartition
from tilelang.targets.nvidia.isa.atom import MmaAtom
from tilelang.targets.nvidia.lowerings.mma_operand import MatrixShare, SharedOperand

_REGISTER_BYTES = 4


@record
class OperandPlan(Plan):
    """The operand that a copy loads.

    Attributes:
        atom: The instruction that takes it.
        warps: The partition of the gemm's tile over warps.
        is_left: Whether it is A.
        transposed: Whether K is its first dimension.
    """

    atom: MmaAtom
    warps: WarpPartition
    is_left: bool
    transposed: bool

    def share(self, region: Region) -> MatrixShare:
        """The part of a warp, given one step of the operand."""
        row_axis, k_axis = self._axes(region)
        rows, depth = (int_const(region.extent[axis]) or 0 for axis in (row_axis, k_axis))
        atom, warps = self.atom, self.warps
        part, atoms, many = (
            (atom.a, warps.row_atoms, warps.rows) if self.is_left else (atom.b, warps.column_atoms, warps.columns)
        )
        return MatrixShare(region, row_axis, k_axis, rows, depth, part, atoms, many * atoms * part.shape[0])

    def _axes(self, region: Region) -> tuple[int, int]:
        """The dimensions along M or N, and along K."""
        first, second = matrix_axes(region)
        return (second, first) if self.transposed else (first, second)


class OperandLoad:
    """The lowering."""

    name = "copy.operand"

    def accepts(self, op: Copy, context: LoweringContext) -> Plan | Refusal:
        """Refuses: only a loop whose fragments are loaded ahead has such copies."""
        del op, context
        return Refusal("it loads no operand ahead of its loop")

    def constrain(self, op: Copy, plan: OperandPlan, context: LoweringContext) -> Iterable[Constraint]:
        """None: the gemm has them all."""
        del op, plan, context
        return ()

    def lower(self, op: Copy, plan: OperandPlan, context: LoweringContext, build: Builder) -> None:
        """The loads of the executing thread."""
        emit, thread = emitter(build, context, self.name)
        warp_size = context.target.machine.warp_size
        lane = emit.bind("lane", thread % warp_size, warp_size)
        warp = emit.bind("warp", thread // warp_size, context.threads // warp_size)
        share, rows, columns = plan.share(op.src), plan.warps.rows, plan.warps.columns
        number = warp % rows if plan.is_left else warp // rows % columns
        first = emit.short(number * (share.atoms * share.atom.shape[0]))
        operand = SharedOperand(emit, share, lane, first, context.shared_layouts.get(op.src.buffer), sets=0)
        operand.loading_to(context.registers[op.dst.buffer]).fetch(ZERO, tail=False)


def operand_loads(op: Gemm) -> OperandLoads | None:
    """How operands of a step of a gemm are loaded, if both are in shared memory and `mma.sync` takes whole steps."""
    plan, (m, n, k) = op.plan, (int_const(size) or 0 for size in op.sizes)
    if not isinstance(plan, MmaPlan) or not isinstance(plan.atom, MmaAtom) or min(m, n) == 1:
        return None
    atom, warps = plan.atom, plan.warps
    if k % atom.shape[2] or op.c.dtype != atom.c_dtype:
        return None
    size = 0
    for region, values in ((op.a, warps.row_atoms * atom.a.values), (op.b, warps.column_atoms * atom.b.values)):
        if region.buffer.scope is not Scope.SHARED:
            return None
        size += values * region.dtype.storage_bytes
    plans = OperandPlan(atom, warps, True, op.transpose_a), OperandPlan(atom, warps, False, not op.transpose_b)
    return OperandLoads(atom.shape[2], -(-size // _REGISTER_BYTES), OperandLoad.name, plans)
