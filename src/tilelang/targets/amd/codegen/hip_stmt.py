"""Prints the statements of one thread's program as HIP, where they differ from those of other GPUs."""

from __future__ import annotations

from collections.abc import Set

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.emitter import Emitter
from tilelang.errors import Loc, NoLowering
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import Atomic, For, Launch, Print
from tilelang.isa.instruction import Effect
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.amd.isa.atomic_text import atomic_text
from tilelang.targets.amd.isa.save_registers import REMATERIALIZE
from tilelang.targets.gpu.codegen.program import instructions_of
from tilelang.targets.gpu.codegen.statements import FAILED, ThreadStmtPrinter


class HipStmtPrinter(ThreadStmtPrinter):
    """Appends the HIP text of statements to an emitter."""

    few_trips = 1

    def __init__(
        self,
        out: Emitter,
        exprs: ExprPrinter,
        launch: Launch,
        written: Set[Buffer],
        asserts: list[tuple[str, Loc]],
    ) -> None:
        super().__init__(out, exprs, launch, written, asserts)
        self._syncs_grid = any(Effect.SYNC_GRID in instruction.effect for instruction in instructions_of(launch))

    def _iteration(self, node: For) -> None:
        if self._is_rolled(node) and self._launch_thread is not None:
            self._exprs.need(REMATERIALIZE)
            self._out.line(f"TL_REMATERIALIZE({self._names[self._launch_thread]});")
        super()._iteration(node)

    def _atomic_call(self, node: Atomic) -> Template:
        return atomic_text(node)

    def _print(self, node: Print) -> list[str]:
        raise NoLowering(
            "T.print: HIP text that needs no header has no printf",
            loc=node.loc,
            hint='write execution_backend="simulator", which prints, or store the values to a tensor',
        )

    def _fail(self, number: int) -> list[str]:
        """Ends the wave, unless other blocks would wait for it at a barrier of the grid."""
        self._exprs.need(RECORD_FAILURE)
        ends = [] if self._syncs_grid else ["__builtin_amdgcn_endpgm();"]
        return [f"tl_record_failure({FAILED}, {number});", *ends]


RECORD_FAILURE = Helper(
    "tl_record_failure",
    """\
// Records the number of a failed assertion, unless another has failed before. The wave may end then: barriers of the
// block do not wait for waves that have ended, and a trap would end the user's process.
__device__ __forceinline__ void tl_record_failure(int* failed, int number) {
    int none = 0;
    __hip_atomic_compare_exchange_strong(failed, &none, number, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_SYSTEM);
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "");
}
""",
)
