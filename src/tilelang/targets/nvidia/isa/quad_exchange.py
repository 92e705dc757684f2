"""The exchange within quads of lanes that makes 8-bit sums of a matrix instruction an operand A of the next one.

Gives `QUAD_EXCHANGE`. Of 16 rows and 32 columns, lane 4 g + t holds columns 2 t and 2 t + 1 of every 8 in rows g and
g + 8 as sums, but columns 4 t to 4 t + 3 of every 16 as an operand. Both are four words: as sums, each word has two
columns of both rows; as an operand, words 0 and 2 are of row g. In each half of 16 columns, a lane sends one word to
each of two lanes; after two shuffles it has what it needs, in an order that depends on its half of the quad.

Source: PTX ISA, "Matrix Fragments for mma.m16n8k32"; "Data Movement and Conversion Instructions: shfl.sync", "prmt".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.targets.nvidia.isa.types import INTEGERS

ELEMENT_BITS = 8
VALUES = 16  # of a lane

_HELPER = Helper(
    "tl_quad_exchange",
    """\
// Makes 16 rows and 32 columns of bytes that lie as sums of matrix instructions do an operand A.
__device__ __forceinline__ void tl_quad_exchange(void* operand, const void* sums) {
    const uint32_t* own = (const uint32_t*)sums;
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    const uint32_t from = (lane & 1u) << 1 | (lane & 2u) >> 1;
    const bool odd = lane & 1u, upper = lane & 2u;
    // Chosen by permuting bytes: a conditional expression becomes a branch on which the lanes of every warp diverge.
    const uint32_t first = odd ? 0x7654u : 0x3210u, second = odd ? 0x3210u : 0x7654u;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t a = __shfl_sync(0xffffffffu, __byte_perm(own[i], own[i + 1], first), from, 4);
        const uint32_t b = __shfl_sync(0xffffffffu, __byte_perm(own[i], own[i + 1], second), from ^ 1u, 4);
        ((uint32_t*)operand)[i] = __byte_perm(a, b, upper ? 0x1054u : 0x5410u);
        ((uint32_t*)operand)[i + 1] = __byte_perm(a, b, upper ? 0x3276u : 0x7632u);
    }
}
""",
    needs=(INTEGERS,),
)


def _places() -> tuple[np.ndarray, np.ndarray]:
    """For each lane and byte of an operand, the lane that holds it as a sum, and its number there."""
    lane, value = np.meshgrid(np.arange(32), np.arange(VALUES), indexing="ij")
    row = value // 4 % 2  # whether it is of row g + 8
    column = lane % 4 * 4 + value % 4 + value // 8 * 16
    return lane // 4 * 4 + column % 8 // 2, column // 8 * 4 + row * 2 + column % 2


_LANE, _NUMBER = _places()


def _simulate(warp: Warp, operand: Pointer, sums: Pointer) -> None:
    warp.converge((1 << warp.size) - 1, "quad_exchange")
    values, defined = warp.read_raw(sums, VALUES)
    warp.write(operand, values[_LANE, _NUMBER], defined=defined[_LANE, _NUMBER])


QUAD_EXCHANGE = Instruction(
    "quad_exchange",
    {"cuda": "tl_quad_exchange({0}, {1})"},
    {"cuda": _HELPER},
    _simulate,
    execution_scope=ExecutionScope.WARP,
    source="PTX ISA, 'Data Movement and Conversion Instructions: shfl.sync'",
)
"""Called with the registers of the operand, then those of the sums, 16 bytes of a lane each."""


def instructions() -> Iterator[Instruction]:
    """Those of this file."""
    yield QUAD_EXCHANGE
