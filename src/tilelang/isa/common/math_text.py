"""Texts of mathematical functions on integers, which are those of C in every dialect.

Takes what defines the integer types. Invariant: results wrap at the width of their dtype, and nothing is undefined.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.intrinsic import Helper, Template

SIGNED = ("int4", "int8", "int16", "int32", "int64")
UNSIGNED = ("bool", "uint4", "uint8", "uint16", "uint32", "uint64")

UNCHANGED: Mapping[str, Template] = dict.fromkeys((*SIGNED, *UNSIGNED), Template("{0}"))
"""What rounding does to integers."""


def fma_of_integers(types: Helper | None = None) -> Mapping[str, Template]:
    """`fma` by dtype: unsigned arithmetic wraps, and the conversion to the stored dtype drops higher bits."""
    narrow = Template("(int32_t)((uint32_t)({0}) * (uint32_t)({1}) + (uint32_t)({2}))", types)
    wide = {
        "uint32": Template("((uint32_t)({0}) * (uint32_t)({1}) + (uint32_t)({2}))", types),
        "int64": Template("(int64_t)((uint64_t)({0}) * (uint64_t)({1}) + (uint64_t)({2}))", types),
        "uint64": Template("((uint64_t)({0}) * (uint64_t)({1}) + (uint64_t)({2}))", types),
    }
    return {name: wide.get(name, narrow) for name in UNCHANGED}
