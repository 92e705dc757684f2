"""The index of the executing warpgroup, which is one value for the threads that compute gemms together.

Gives `WARPGROUP_INDEX`. What depends on it must be about rows of the executing warpgroup alone, as with `AnyExceeds`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilelang.dtypes import INT32
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Warp

_WARPS = 4  # of a warpgroup

_TEXT = """\
// The index of the executing warpgroup, in a uniform register.
__device__ __forceinline__ int tl_warpgroup_index() { return __shfl_sync(0xffffffffu, (int)(threadIdx.x >> 7), 0); }
"""


def _simulate(warp: Warp) -> np.ndarray:
    return np.full(warp.size, warp.index // _WARPS, np.int32)


WARPGROUP_INDEX = Instruction(
    "warpgroup_index",
    {"cuda": "tl_warpgroup_index()"},
    {"cuda": Helper("tl_warpgroup_index", _TEXT)},
    _simulate,
    result=INT32,
    keeps_uniform=True,
    is_index_arithmetic=True,
    source="CUDA C++ Programming Guide, 'Warp Shuffle Functions'",
)
"""The index; called with nothing."""


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield WARPGROUP_INDEX
