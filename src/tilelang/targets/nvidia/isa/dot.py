"""Dot products of four packed bytes, added to an integer.

Gives `DOT4`, the text of `T.dp4a`, and `dot`, the instruction with any mixture of signs. Invariant: sums wrap.

Source: PTX ISA, "Integer Arithmetic Instructions: dp4a".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from tilelang.dtypes import SCALARS, DType
from tilelang.errors import NoLowering
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper, Template
from tilelang.isa.simulated import Warp
from tilelang.targets.nvidia.isa.types import INTEGERS

_LETTER = {"int32": "s", "uint32": "u"}


def _name(a: str, b: str, c: str) -> str:
    return f"tl_dp4a_{_LETTER[a]}{_LETTER[b]}_{_LETTER[c]}"


def _helper(a: str, b: str, c: str) -> Helper:
    """The function for operands of given signs; a sum is signed where an operand is, in bits it is the same."""
    name = _name(a, b, c)
    text = f"""\
__device__ __forceinline__ {c}_t {name}({a}_t a, {b}_t b, {c}_t c) {{
    {c}_t d;
    asm("dp4a.{_LETTER[a]}32.{_LETTER[b]}32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}}
"""
    return Helper(name, text, needs=(INTEGERS,))


DOT4: Mapping[str, Template] = {
    name: Template(
        f"{_name(name, name, name)}(({name}_t)({{0}}), ({name}_t)({{1}}), ({name}_t)({{2}}))", _helper(name, name, name)
    )
    for name in ("int32", "uint32")
}


@cache
def dp4a(a: DType, b: DType) -> Instruction:
    """`c + sum(a[i] * b[i])` over four bytes packed in each of a and b, as an instruction.

    Args: the dtypes of a and b, "int32" or "uint32", say how their bytes are signed. It is called with a, b and c;
    c and the result are "uint32" where a and b both are, otherwise "int32".

    Raises:
        NoLowering: The operands are no 32-bit integers.
    """
    if str(a) not in _LETTER or str(b) not in _LETTER:
        raise NoLowering(f"dp4a: operands are {a!s} and {b!s}", hint="pack four bytes in an int32 or uint32")
    result = SCALARS["uint32" if a == b == "uint32" else "int32"]
    helper = _helper(str(a), str(b), str(result))

    def simulate(warp: Warp, x: Any, y: Any, z: Any) -> np.ndarray:
        total = np.asarray(z, np.int64) + sum(_byte(x, a, i) * _byte(y, b, i) for i in range(4))
        return np.broadcast_to((total & 0xFFFFFFFF).astype(np.uint32), (32,)).view(result.numpy)

    return Instruction(
        f"dp4a_{a!s}_{b!s}",
        {"cuda": f"{helper.name}({{0}}, {{1}}, {{2}})"},
        {"cuda": helper},
        simulate,
        result=result,
        source="PTX ISA, 'Integer Arithmetic Instructions: dp4a'",
    )


def _byte(packed: Any, dtype: DType, number: int) -> np.ndarray:
    byte = np.asarray(packed).astype(np.int64) >> (8 * number) & 0xFF
    return np.where(byte >= 128, byte - 256, byte) if dtype == "int32" else byte


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    for name in ("int32", "uint32"):
        yield from (dp4a(SCALARS[name], SCALARS[other]) for other in ("int32", "uint32"))
