"""CUDA texts of the bit operations; operands are the unsigned types that the rows of `isa.common.bits` compute in.

Source: CUDA Math API, "Integer Intrinsics"; PTX ISA, "Integer Arithmetic Instructions: popc, clz, fns, dp4a".
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.intrinsic import Template
from tilelang.targets.nvidia.isa.dot import DOT4
from tilelang.targets.nvidia.isa.types import INTEGERS

_POPCOUNT = {
    "uint4": Template("__popc(({0}) & 15u)"),
    "uint8": Template("__popc({0})"),
    "uint16": Template("__popc({0})"),
    "uint32": Template("__popc({0})"),
    "uint64": Template("__popcll({0})"),
}
_CLZ = {  # which counts in 32 bits
    "uint4": Template("(__clz(({0}) & 15u) - 28)"),
    "uint8": Template("(__clz({0}) - 24)"),
    "uint16": Template("(__clz({0}) - 16)"),
    "uint32": Template("__clz({0})"),
    "uint64": Template("__clzll({0})", INTEGERS),
}

_FNS = {"uint32": Template("__fns({0}, {1}, (int)({2}))")}

# by the names of `isa.common.bits`
BITS: Mapping[str, Mapping[str, Template]] = {"popcount": _POPCOUNT, "clz": _CLZ, "fns": _FNS, "dp4a": DOT4}
