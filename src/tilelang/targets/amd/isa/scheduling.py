"""Barriers for the compiler's instruction scheduler; they emit no instruction and have no effect at run time.

Source: LLVM, "User Guide for AMDGPU Backend", `llvm.amdgcn.sched.barrier`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Warp

_VECTOR_ALU, _SCALAR_ALU, _GLOBAL_MEMORY, _LDS_WRITE = 0x2, 0x4, 0x10, 0x200
_MAY_CROSS = _VECTOR_ALU | _SCALAR_ALU | _GLOBAL_MEMORY | _LDS_WRITE


def _no_effect(warp: Warp) -> None:
    del warp


KEEP_MATRIX_ORDER = Instruction(
    "keep_matrix_order",
    {"hip": "tl_keep_matrix_order()"},
    {
        "hip": Helper(
            "tl_keep_matrix_order",
            f"""\
// Matrix instructions and loads from LDS stay on their side of it. The scheduler of LLVM 15 does not end with it.
#if __clang_major__ > 15
#define tl_keep_matrix_order() __builtin_amdgcn_sched_barrier({_MAY_CROSS:#x})
#else
#define tl_keep_matrix_order()
#endif
""",
        )
    },
    _no_effect,
    source="LLVM, User Guide for AMDGPU Backend, llvm.amdgcn.sched.barrier",
)
"""Matrix instructions and loads from LDS stay on their side of it."""

KEEP_ORDER = Instruction(
    "keep_order",
    {"hip": "tl_keep_order()"},
    {
        "hip": Helper(
            "tl_keep_order",
            """\
// All instructions stay on their side of it. The scheduler of LLVM 15 does not end with it.
#if __clang_major__ > 15
#define tl_keep_order() __builtin_amdgcn_sched_barrier(0)
#else
#define tl_keep_order()
#endif
""",
        )
    },
    _no_effect,
    source="LLVM, User Guide for AMDGPU Backend, llvm.amdgcn.sched.barrier",
)
"""All instructions stay on their side of it."""


def instructions() -> Iterator[Instruction]:
    """Those of this file."""
    yield KEEP_MATRIX_ORDER
    yield KEEP_ORDER
