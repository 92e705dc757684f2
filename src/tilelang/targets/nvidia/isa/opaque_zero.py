"""A zero that no compiler knows, so that a branch stays whose condition would otherwise be known.

Gives `OPAQUE_ZERO`. NVVM does not see what inline PTX reads, and ptxas 13.0 and 13.5 assume nothing of the size of a
grid, which has fewer than 2^31 blocks along x.

Source: PTX ISA, "Special Registers: %nctaid"; CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability", for the size of a grid.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilelang.dtypes import INT32
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Warp

_TEXT = """\
// Zero, which compilers do not know: a grid has fewer than 2^31 blocks.
__device__ __forceinline__ int tl_opaque_zero() {
    unsigned blocks;
    asm("mov.u32 %0, %%nctaid.x;" : "=r"(blocks));
    return blocks >> 31;
}
"""


def _simulate(warp: Warp) -> np.ndarray:
    return np.zeros(warp.size, np.int32)


OPAQUE_ZERO = Instruction(
    "opaque_zero",
    {"cuda": "tl_opaque_zero()"},
    {"cuda": Helper("tl_opaque_zero", _TEXT)},
    _simulate,
    result=INT32,
    keeps_uniform=True,
    is_index_arithmetic=True,
    source="PTX ISA, 'Special Registers: %nctaid'",
)
"""Zero; called with nothing."""


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield OPAQUE_ZERO
