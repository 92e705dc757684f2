"""Arithmetic on two neighboring registers by one instruction.

Gives `MULTIPLY_ADD_PAIR`: two products of float32 with one factor, plus one number.

Source: AMD CDNA 3 Instruction Set Architecture, "Packed Math", V_PK_FMA_F32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.targets.amd.machines import Feature
from tilelang.targets.gpu.isa.lanes import spread

PAIR = 2

_HELPER = Helper(
    "tl_multiply_add_pair",
    """\
// Two numbers times a factor plus an addend, which compilers do not do by one instruction on their own.
__device__ __forceinline__ void tl_multiply_add_pair(float* made, const float* from, float factor, float addend) {
    typedef float pair __attribute__((ext_vector_type(2)));
    const pair x = {from[0], from[1]}, y = x * factor + addend;
    made[0] = y[0];
    made[1] = y[1];
}
""",
)


def _simulate(warp: Warp, made: Pointer, source: Pointer, factor: Any, addend: Any) -> None:
    values = warp.read(source, PAIR)
    warp.write(made, values * spread(warp, factor)[:, None] + spread(warp, addend)[:, None])


MULTIPLY_ADD_PAIR = Instruction(
    "multiply_add_pair",
    {"hip": "tl_multiply_add_pair({0}, {1}, {2}, {3})"},
    {"hip": _HELPER},
    _simulate,
    needs=Feature.PACKED_FLOAT32,
    source="AMD CDNA 3 Instruction Set Architecture, 'V_PK_FMA_F32'",
)
"""Its operands are two registers that it writes, two that it reads, the factor and the addend."""


def instructions() -> Iterator[Instruction]:
    """Those of this file."""
    yield MULTIPLY_ADD_PAIR
