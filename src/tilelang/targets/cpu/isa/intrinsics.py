"""C++ texts of the intrinsics of the language.

Invariant: every intrinsic of the language has a text, though not for every dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tilelang.isa.common.bits_text import BITS
from tilelang.isa.intrinsic import Template
from tilelang.targets.cpu.isa.ieee import IEEE
from tilelang.targets.cpu.isa.math import MATH

_TEMPLATES: Mapping[str, Mapping[str, Template]] = MappingProxyType({**MATH, **BITS, **IEEE})


def templates(name: str) -> Mapping[str, Template]:
    """The texts of an intrinsic by compute dtype; empty for unknown names."""
    return _TEMPLATES.get(name) or _random_templates().get(name, {})


@cache
def _random_templates() -> Mapping[str, Mapping[str, Template]]:
    from tilelang.isa.common.random_text import random_texts  # noqa: PLC0415  long tables, which few kernels need

    return random_texts("static inline", "static inline", headers=("<cstdint>",))
