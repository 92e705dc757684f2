"""Prints the statements of one thread's program as CUDA C++, where they differ from those of other GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from tilelang.codegen.pointer_increments import AddressKey, Steps, common_addresses
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Var
from tilelang.ir.stmt import Atomic, For, Print, Stmt
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.gpu.codegen.statements import FAILED, ThreadStmtPrinter, pointer_type
from tilelang.targets.nvidia.codegen.cuda_print import print_lines
from tilelang.targets.nvidia.codegen.wgmma_sequence import WgmmaSequence, with_sequences
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC
from tilelang.targets.nvidia.isa.atomic import of_statement


class CudaStmtPrinter(ThreadStmtPrinter):
    """Appends the CUDA text of statements to an emitter."""

    brief = CP_ASYNC

    def _atomic_call(self, node: Atomic) -> Template:
        instruction = of_statement(node)
        return Template(instruction.texts["cuda"], cast(Helper | None, instruction.helpers.get("cuda")))

    def _statements(self, statements: Sequence[Stmt]) -> None:
        for item in with_sequences(statements):
            if isinstance(item, WgmmaSequence):
                self._wgmma_sequence(item)
            else:
                self.stmt(item)

    def _wgmma_sequence(self, sequence: WgmmaSequence) -> None:
        """One call, with the operands of each step on a line."""
        self._out.loc = sequence.loc
        self._comment(sequence.loc)
        self._exprs.need(sequence.helper)
        self._out.line(f"{sequence.helper.name}({self._argument(sequence.c)},")
        for a, b in sequence.operands:
            self._out.line(f"    {self._argument(a)}, {self._argument(b)},")
        self._out.line(f"    {self._argument(sequence.accumulate)});")

    def _unrolled(self, node: For, last: int, also: Sequence[str]) -> None:
        exprs = self._exprs
        outside = exprs.pointers
        if not exprs.unrolled:
            exprs.pointers = {**outside, **self._common_pointers(node)}
        super()._unrolled(node, last, also)
        exprs.pointers = outside

    def _common_pointers(self, nest: For) -> dict[AddressKey, tuple[str, Mapping[Var, Steps]]]:
        """Declares pointers to what unrolled loops access in global memory."""
        exprs, found = self._exprs, {}
        for (buffer, place), address in common_addresses(nest).items():
            if self._types.offset_bits(buffer) == 32:  # else what the loops add might not fit into an `int`
                name = self._names.fresh(f"{buffer.name}_at")
                first = exprs.address(Region(buffer, address.start, ()))
                self._out.line(f"{pointer_type(buffer, exprs, self._written)} const {name} = {first};")
                found[buffer, place] = name, address.unrolled_steps
        return found

    def _print(self, node: Print) -> list[str]:
        return print_lines(node, self._exprs)

    def _fail(self, number: int) -> list[str]:
        self._exprs.need(FAIL)
        return [f"tl_fail({FAILED}, {number});"]


FAIL = Helper(
    "tl_fail",
    """\
// Records the number of a failed assertion, unless another has failed before, and ends the launch.
__device__ __noinline__ void tl_fail(int* failed, int number) {
    atomicCAS_system(failed, 0, number);
    __threadfence_system();
    __trap();
}
""",
)
