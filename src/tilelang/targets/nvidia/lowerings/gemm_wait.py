"""The wait for asynchronous gemms by `wgmma.wait_group`.

Takes `GemmWait`; gives the program of one thread: what is computed before the wait, the wait, and the accumulators that
are complete after it. Invariant: neither the compiler of the text nor that of PTX moves uses of an accumulator before
the wait, nor other computation after it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import int_const
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import CallStmt
from tilelang.layout.constraints import Constraint
from tilelang.lowering.lowering import ACCEPTED, LoweringContext, Refusal
from tilelang.lowering.registers import emitter
from tilelang.ops.gemm import MAX_PENDING
from tilelang.ops.gemm_wait import GemmWait
from tilelang.targets.nvidia.isa.wgmma import wgmma_wait
from tilelang.targets.nvidia.isa.wgmma_registers import fence_operands
from tilelang.targets.nvidia.machines import Feature


class WgmmaWait:
    """The lowering."""

    name = "gemm_wait.wgmma"

    def accepts(self, op: GemmWait, context: LoweringContext) -> Plan | Refusal:
        """Nothing to decide, or why it cannot be done."""
        if not context.target.has(Feature.WGMMA):
            return Refusal(f"{context.target.arch} has no asynchronous gemms")
        return ACCEPTED if op.pending <= MAX_PENDING else Refusal(f"{op.pending} groups cannot be pending")

    def constrain(self, op: GemmWait, plan: Plan, context: LoweringContext) -> Iterable[Constraint]:
        """Any layouts will do."""
        return ()

    def lower(self, op: GemmWait, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """The program of the executing thread."""
        emit, _ = emitter(build, context, self.name)

        def fence(regions: Iterable[Region]) -> None:
            for region in regions:
                registers = context.registers[region.buffer]
                count = int_const(registers.shape[0]) or 0
                values = emit.part(registers, 0, count)
                build.emit(CallStmt(fence_operands(registers.dtype, count), (values,), (values,), (values,)))

        fence(op.computed)
        build.emit(CallStmt(wgmma_wait(op.pending), ()))
        fence(op.results)

