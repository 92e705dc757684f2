"""Prints a thread-level function as HIP: one kernel per launch, each the program of one thread.

Takes a `PrimFunc`, gives a `Source`; what the text has in common with that for other GPUs is printed by
`targets.gpu.codegen.program`. The text needs no header and no library of the device.
"""

from __future__ import annotations

import re
from collections.abc import Set

from tilelang.codegen.emitter import Emitter
from tilelang.codegen.source import KernelArgument, Source
from tilelang.ir.buffer import Buffer
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Var
from tilelang.ir.func import PrimFunc
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Launch, Print
from tilelang.ir.visit import walk
from tilelang.isa.instruction import Instruction
from tilelang.targets.amd.codegen.hip_dialect import HIP
from tilelang.targets.amd.codegen.hip_expr import HipExprPrinter
from tilelang.targets.amd.codegen.hip_print import PRINT, PRINTER
from tilelang.targets.amd.codegen.hip_stmt import HipStmtPrinter
from tilelang.targets.amd.isa.types import PRELUDE
from tilelang.targets.amd.machines import MAX_GRID
from tilelang.targets.gpu.codegen.program import ThreadProgram
from tilelang.targets.gpu.codegen.statements import ARENA

# Source: our text's own types and macros, and those that hiprtc defines
_RESERVED = re.compile(
    r"(u?char|u?short|u?int|u?long|u?longlong|float|double)[1-4]|dim3|(thread|block)Idx|(block|grid)Dim|warpSize|min|max"
    r"|\w+_t|TL_\w+|clock(64)?|f?(abs|max|min|mod)f?|(exp|log|sqrt|pow|sin|cos|tan|floor|ceil|rint|round|fma)f?|hip\w*"
)


def emit(func: PrimFunc) -> Source:
    """The function as HIP source.

    Raises:
        CompilerBug: The function holds something that earlier passes should have removed.
        NoLowering: The function has a statement without a text in HIP.
    """
    return _Program(func).source()


class _Program(ThreadProgram):
    """The source under construction."""

    dialect = HIP
    words = _RESERVED
    max_grid = MAX_GRID
    thread_type = "int"  # not const: `TL_REMATERIALIZE` takes it by reference
    flags = ("-Wno-parentheses",)  # helpers shared with other targets have no further parentheses

    def _traits(self, launch: Launch) -> str:
        # without the number of threads, the compiler would allocate registers for 1024
        return f"__attribute__((amdgpu_flat_work_group_size({launch.num_threads}, {launch.num_threads})))"

    def _arena(self, plan: LaunchPlan) -> str:
        # the compiler counts LDS of a static size when it chooses the occupancy for register allocation
        size = "" if plan.dynamic_shared_bytes is not None else str(plan.shared_bytes)
        storage = "extern __shared__" if plan.dynamic_shared_bytes is not None else "__shared__"
        return f"{storage} __attribute__((aligned(1024))) unsigned char {ARENA}[{size}];"

    def _dynamic_bytes(self, plan: LaunchPlan) -> int:
        return plan.shared_bytes if plan.dynamic_shared_bytes is not None else 0

    def _block_index(self, axis: str) -> str:
        return f"(int)__builtin_amdgcn_workgroup_id_{axis}()"

    def _thread_index(self, axis: str) -> str:
        return f"(int)__builtin_amdgcn_workitem_id_{axis}()"

    def _statements(self, out: Emitter, launch: Launch, written: Set[Buffer]) -> HipStmtPrinter:
        assert isinstance(self._exprs, HipExprPrinter)
        return HipStmtPrinter(out, self._exprs, launch, written, self._asserts)

    def _first_parameters(self, launch: Launch, used: Set[Var | Buffer]) -> tuple[list[str], list[KernelArgument]]:
        if not any(isinstance(stmt, Print) for stmt in walk(launch.body)):
            return [], []
        return [f"const {PRINT.name} {PRINTER}"], [KernelArgument("prints", 0, "void*")]

    def _printer(self) -> HipExprPrinter:
        return HipExprPrinter(self._names, self.dialect, self._types)

    def _preamble(self, user_text: str) -> list[str]:
        return [*PRELUDE.splitlines(), ""]

    def _is_user_code(self, routine: Routine) -> bool:
        return isinstance(routine, Instruction) and routine.dialect_key[:1] == ("call_extern",)
