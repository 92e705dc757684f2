"""The CUDA text of the language's intrinsics.

Gives `templates`. Invariant: every intrinsic that a user can name has a text, but perhaps not for every dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tilelang.isa.intrinsic import Template
from tilelang.targets.nvidia.isa.bits import BITS
from tilelang.targets.nvidia.isa.half2 import HALF2
from tilelang.targets.nvidia.isa.ieee import IEEE
from tilelang.targets.nvidia.isa.math import MATH
from tilelang.targets.nvidia.isa.types import INTEGERS

_TEMPLATES: Mapping[str, Mapping[str, Template]] = MappingProxyType({**MATH, **BITS, **IEEE, **HALF2})


def templates(name: str) -> Mapping[str, Template]:
    """An intrinsic's texts by compute dtype; none for a name that the language does not have."""
    return _TEMPLATES.get(name) or _random_templates().get(name, {})


@cache
def _random_templates() -> Mapping[str, Mapping[str, Template]]:
    from tilelang.isa.common.random_text import random_texts  # noqa: PLC0415  long tables, which few kernels need

    # what starts a generator would take the compiler long if it were unrolled and inlined
    return random_texts(
        "__device__ __forceinline__", "static __device__ __noinline__", "#pragma unroll 1\n", needs=(INTEGERS,)
    )
