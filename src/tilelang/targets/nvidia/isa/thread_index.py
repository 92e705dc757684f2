"""The index of the executing thread, read where it is used by kernels that spill otherwise.

Gives `THREAD_INDEX`. What follows from it is computed behind that point: NVVM does not move inline PTX that is volatile
out of loops, nor what depends on it, and ptxas does not move reads of special registers. It may do so with `RENEWED`,
which is no instruction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilelang.dtypes import INT32
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Warp
from tilelang.targets.gpu.isa.save_registers import SAVE_REGISTERS

_TEXT = f"""\
// threadIdx.x; where registers are scarce it is read here, and what follows from it is computed behind this point.
__device__ __forceinline__ int tl_thread_index() {{
#ifdef {SAVE_REGISTERS}
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
#else
    return threadIdx.x;
#endif
}}
"""


def _simulate(warp: Warp) -> np.ndarray:
    return (warp.index * warp.size + warp.lane).astype(np.int32)


THREAD_INDEX = Instruction(
    "thread_index",
    {"cuda": "tl_thread_index()"},
    {"cuda": Helper("tl_thread_index", _TEXT)},
    _simulate,
    result=INT32,
    is_index_arithmetic=True,
    source="PTX ISA, 'Special Registers', \"%tid\"; CUDA, 'Inline PTX Assembly in CUDA', \"Incorrect Optimization\"",
)
"""The index in a block whose threads are along one axis; called with nothing."""


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield THREAD_INDEX
