"""Policies for what a copy leaves in the L2 cache, as the number that copies take as their hint.

Gives `NORMAL` and `l2_policy`. Only TMA takes such hints: where the address of a `cp.async`
has a uniform part, ptxas 13.0 to 13.3 encodes a hint in registers that hold nothing, and the copy traps as an illegal
instruction (seen on an H200, with a policy of `createpolicy` and with the number itself; Marlin's issue 44 and Triton's
pull request 11660 report the same).

Source: PTX ISA, "Data Movement and Conversion Instructions: createpolicy"; the numbers are those to which ptxas 13.0
folds `createpolicy.fractional.L2::<kind>.b64` of fraction 1.0, alike for sm_80, 86, 89, 90a, 100a and 120a.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from tilelang.dtypes import SCALARS
from tilelang.errors import NoLowering
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Warp
from tilelang.targets.nvidia.machines import Feature

NORMAL = "evict_normal"  # what it does without a hint
_NUMBERS = {
    NORMAL: 0x16F0000000000000,
    "evict_first": 0x12F0000000000000,
    "evict_last": 0x14F0000000000000,
}


@cache
def l2_policy(eviction: str) -> Instruction:
    """A policy as a value, which several copies may take.

    Raises:
        NoLowering: There is no such policy.
    """
    if eviction not in _NUMBERS:
        raise NoLowering(f"L2 policy: {eviction!r} is none of {', '.join(_NUMBERS)}")
    number = _NUMBERS[eviction]
    name = f"tl_l2_policy_{eviction}"
    text = f"""\
// An L2 cache policy for the accesses that are given it.
__device__ __forceinline__ unsigned long long {name}() {{ return {number:#x}ull; }}
"""

    def simulate(warp: Warp) -> np.ndarray:
        return np.full(warp.size, number, np.uint64)

    return Instruction(
        f"l2_policy_{eviction}",
        {"cuda": f"{name}()"},
        {"cuda": Helper(name, text)},
        simulate,
        result=SCALARS["uint64"],
        needs=Feature.TMA,
        source="PTX ISA, 'Data Movement and Conversion Instructions: createpolicy'",
    )


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from map(l2_policy, _NUMBERS)
