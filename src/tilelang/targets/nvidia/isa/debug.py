"""Printing, stopping and clocks inside a kernel.

Source: CUDA C++ Programming Guide, "Formatted Output", "Assertion", "Trap Function", "Time Function", "Nanosleep
Function"; PTX ISA, "Special Registers: %globaltimer".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilelang.dtypes import INT64, SCALARS, DType
from tilelang.errors import DeviceAssertError, ProgramError, SimulationError
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Wait, Warp
from tilelang.targets.nvidia.isa.lanes import LANES, spread
from tilelang.targets.nvidia.isa.types import INTEGERS

_SOURCE = "CUDA C++ Programming Guide, '{}'"
# % flags width .precision length conversion. Source: ISO C, 7.21.6.1
_CONVERSION = re.compile(r"%(%|[-+ #0]*\d*(?:\.\d+)?(hh|h|ll|l|z|j|t|L)?[diouxXeEfFgGaAcsp])")


def string_literal(text: str) -> str:
    """A text as a C string, so that it may stand in the template of an instruction."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + escaped.replace("{", "{{").replace("}", "}}") + '"'


def print_values(text: str, dtypes: Sequence[DType]) -> Instruction:
    """Prints like C's printf, once per lane that gets there; called with one value per conversion.

    Args:
        text: The format. Integers are printed as 64-bit ones, floats as double, whatever the length it says.
        dtypes: Of the values.

    Raises:
        ProgramError: The format does not take that many values.
    """
    conversions = [found for found in _CONVERSION.finditer(text) if found[1] != "%"]
    if len(conversions) != len(dtypes):
        raise ProgramError(f"print: the format {text!r} takes {len(conversions)} values, not {len(dtypes)}")

    def length(found: re.Match[str], modifier: str) -> str:
        if found[1] == "%":
            return found[0]
        conversion = found[0][-1]
        return found[0][: -1 - len(found[2] or "")] + (modifier if conversion in "diouxX" else "") + conversion

    c_text = _CONVERSION.sub(lambda found: length(found, "ll"), text)
    python_text = _CONVERSION.sub(lambda found: length(found, ""), text)
    values = [f", ({'double' if dtype.is_float else 'long long'})({{{i}}})" for i, dtype in enumerate(dtypes)]

    def simulate(warp: Warp, *arguments: Any) -> None:
        columns = [spread(argument) for argument in arguments]
        for lane in np.flatnonzero(warp.active):
            numbers = (
                float(column[lane]) if dtype.is_float else int(column[lane])
                for column, dtype in zip(columns, dtypes, strict=True)
            )
            warp.report((python_text % tuple(numbers)).removesuffix("\n"))

    return Instruction(
        "print_values",
        {"cuda": f"printf({string_literal(c_text)}{''.join(values)})"},
        {},
        simulate,
        source=_SOURCE.format("Formatted Output"),
    )


_ASSERT = Helper(
    "tl_assert",
    """\
// Stops the kernel; the driver then reports CUDA_ERROR_ASSERT and prints the message.
extern "C" __device__ void __assertfail(const char*, const char*, unsigned int, const char*, size_t);
#define tl_assert(condition, message, file, line) \\
    do { if (!(condition)) __assertfail(message, file, line, __func__, sizeof(char)); } while (0)
""",
)


def assertion(message: str, file: str = "", line: int = 0) -> Instruction:
    """Stops the kernel where a condition does not hold; called with the condition.

    Args:
        message: What the user is told.
        file: The user's file.
        line: The user's line in it.
    """

    def simulate(warp: Warp, condition: Any) -> None:
        if (warp.active & ~spread(condition).astype(bool)).any():
            raise DeviceAssertError(message)

    return Instruction(
        "assertion",
        {"cuda": f"tl_assert({{0}}, {string_literal(message)}, {string_literal(file)}, {line})"},
        {"cuda": _ASSERT},
        simulate,
        source=_SOURCE.format("Assertion"),
    )


def _trap(warp: Warp) -> None:
    if warp.active.any():
        raise SimulationError("trap: the kernel stopped itself")


TRAP = Instruction("trap", {"cuda": "__trap()"}, {}, _trap, source=_SOURCE.format("Trap Function"))
"""Aborts the kernel; called with nothing."""


def _tick(warp: Warp, name: str, dtype: DType) -> np.ndarray:
    """A clock that advances whenever it is read."""
    return np.full(LANES, next(warp.state(name, itertools.count)), dtype.numpy)


def _clock(warp: Warp) -> np.ndarray:
    return _tick(warp, "clock64", INT64)


def _global_timer(warp: Warp) -> np.ndarray:
    return _tick(warp, "globaltimer", SCALARS["uint64"])


CLOCK64 = Instruction(
    "clock64", {"cuda": "clock64()"}, {}, _clock, result=INT64, source=_SOURCE.format("Time Function")
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
    source="PTX ISA, 'Special Registers: %globaltimer'",
)
"""The GPU's clock, in nanoseconds; called with nothing. A simulator only promises that it advances."""


def _sleep(warp: Warp, nanoseconds: Any) -> Iterator[Wait]:
    yield Wait("nanosleep", lambda: True)


NANOSLEEP = Instruction(
    "nanosleep",
    {"cuda": "__nanosleep({0})"},
    {},
    _sleep,
    parts_lanes=True,
    source=_SOURCE.format("Nanosleep Function"),
)
"""Lets other warps run for about as many nanoseconds; called with that number, up to a million."""
