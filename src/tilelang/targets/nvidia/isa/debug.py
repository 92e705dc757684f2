"""Stopping, sleeping and clocks inside a kernel.

Source: CUDA C++ Programming Guide, "Trap Function", "Time Function", "Nanosleep Function"; PTX ISA, "Special Registers:
%globaltimer".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilelang.dtypes import INT64, SCALARS, DType
from tilelang.errors import ProgramError, SimulationError
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Wait, Warp
from tilelang.targets.nvidia.isa.types import INTEGERS

_INSTEAD = "measure whole kernels: kernel.get_profiler().do_bench()"
_SOURCE = "CUDA C++ Programming Guide, '{}'"


def _trap(warp: Warp) -> None:
    if warp.active.any():
        raise SimulationError("trap: the kernel stopped itself")


TRAP = Instruction(
    "trap",
    {"cuda": "__trap()"},
    {},
    _trap,
    instead="write T.device_assert(False)",
    source=_SOURCE.format("Trap Function"),
)
"""Aborts the kernel; called with nothing."""


_LONGEST = 1_000_000  # nanoseconds. Source: CUDA C++ Programming Guide, "Nanosleep Function"


def _tick(warp: Warp, name: str, dtype: DType) -> np.ndarray:
    """A clock that advances whenever it is read."""
    return np.full(warp.size, next(warp.state(name, itertools.count)), dtype.numpy)


def _clock(warp: Warp) -> np.ndarray:
    return _tick(warp, "clock64", INT64)


def _global_timer(warp: Warp) -> np.ndarray:
    return _tick(warp, "globaltimer", SCALARS["uint64"])


CLOCK64 = Instruction(
    "clock64",
    {"cuda": "clock64()"},
    {},
    _clock,
    result=INT64,
    instead=_INSTEAD,
    source=_SOURCE.format("Time Function"),
)
"""The multiprocessor's clock, in cycles; called with nothing. A simulator only promises that it advances."""

GLOBAL_TIMER = Instruction(
    "global_timer",
    {"cuda": "tl_global_timer()"},
    {
        "cuda": Helper(
            "tl_global_timer",
            """\
__device__ __forceinline__ uint64_t tl_global_timer() {
    uint64_t nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}
""",
            needs=(INTEGERS,),
        )
    },
    _global_timer,
    result=SCALARS["uint64"],
    instead=_INSTEAD,
    source="PTX ISA, 'Special Registers: %globaltimer'",
)
"""The GPU's clock, in nanoseconds; called with nothing. A simulator only promises that it advances."""


def _sleep(warp: Warp, nanoseconds: Any) -> Iterator[Wait]:
    yield Wait("nanosleep", lambda: True, polls=True)


NANOSLEEP = Instruction(
    "nanosleep",
    {"cuda": "__nanosleep({0})"},
    {},
    _sleep,
    may_diverge=True,
    optional=True,
    source=_SOURCE.format("Nanosleep Function"),
)
"""Lets other warps run for about as many nanoseconds; called with that number, up to a million."""


def _check_nanoseconds(what: str, nanoseconds: int) -> None:
    if not 0 <= nanoseconds <= _LONGEST:
        raise ProgramError(f"{what}: {nanoseconds} nanoseconds, but a thread sleeps for 0 to {_LONGEST}")


FUNCTIONS = (
    Function(
        "clock64",
        CLOCK64,
        "The clock of the multiprocessor in cycles, as an int64; two readings differ by the time between them.",
        example="start = T.clock64()",
    ),
    Function(
        "globaltimer",
        GLOBAL_TIMER,
        "The clock of the GPU in nanoseconds, as a uint64, which all multiprocessors share.",
    ),
    Function(
        "nanosleep",
        NANOSLEEP,
        "Lets other warps run for about as many nanoseconds, as in a loop that waits for a flag in memory.",
        (
            Parameter(
                "nanoseconds",
                ParameterKind.VALUE,
                "At most a million.",
                dtype=SCALARS["uint32"],
                check=_check_nanoseconds,
            ),
        ),
        raises=("ProgramError: The number is negative, or larger.",),
        example="T.nanosleep(100)",
    ),
)


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from (TRAP, CLOCK64, GLOBAL_TIMER, NANOSLEEP)
