"""A value as a new one, so that no compiler moves what is computed from it in front of this point.

Gives `RENEWED`. NVVM does not move inline PTX that is volatile out of loops, nor what depends on its results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilelang.dtypes import INT32
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Warp

_TEXT = """\
// The same value; what follows from it is computed behind this point, not kept in registers up to it.
__device__ __forceinline__ int tl_renewed(int value) {
    asm volatile("" : "+r"(value));
    return value;
}
"""


def _simulate(warp: Warp, value: Any) -> np.ndarray:
    return np.broadcast_to(np.asarray(value, np.int32), (warp.size,))


RENEWED = Instruction(
    "renewed",
    {"cuda": "tl_renewed({0})"},
    {"cuda": Helper("tl_renewed", _TEXT)},
    _simulate,
    result=INT32,
    keeps_uniform=True,
    is_index_arithmetic=True,
    source="CUDA, 'Inline PTX Assembly in CUDA', \"Incorrect Optimization\"",
)
"""The value that it is called with."""


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield RENEWED
