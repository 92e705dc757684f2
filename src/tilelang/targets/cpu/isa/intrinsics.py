"""C++ texts of the intrinsics of the language.

Invariant: every intrinsic of the language has a text, though not for every dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tilelang.isa.intrinsic import Spelling
from tilelang.targets.cpu.isa.bits import BITS
from tilelang.targets.cpu.isa.ieee import IEEE
from tilelang.targets.cpu.isa.math import MATH

_TEXTS: Mapping[str, Mapping[str, Spelling]] = MappingProxyType({**MATH, **BITS, **IEEE})


def spellings(name: str) -> Mapping[str, Spelling]:
    """The texts of an intrinsic by compute dtype; empty for unknown names."""
    return _TEXTS.get(name) or _random_texts().get(name, {})


@cache
def _random_texts() -> Mapping[str, Mapping[str, Spelling]]:
    from tilelang.isa.common.random_text import random_texts  # noqa: PLC0415  long tables, which few kernels need

    return random_texts("static inline", "static inline", headers=("<cstdint>",))
