"""The HIP texts of the intrinsics of the language.

Gives `templates`. Invariant: every intrinsic that a user can name has a text for some dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tilelang.isa.common.bits_text import BITS
from tilelang.isa.intrinsic import Template
from tilelang.targets.amd.isa.device_text import for_device
from tilelang.targets.amd.isa.ieee import IEEE
from tilelang.targets.amd.isa.math import MATH

_BITS = {
    name: {dtype: Template(text.text, text.helper and for_device(text.helper)) for dtype, text in texts.items()}
    for name, texts in BITS.items()
}
_TEXTS: Mapping[str, Mapping[str, Template]] = MappingProxyType({**MATH, **_BITS, **IEEE})


def templates(name: str) -> Mapping[str, Template]:
    """An intrinsic's texts by compute dtype; none for a name that the language does not have."""
    return _TEXTS.get(name) or _random_texts().get(name, {})


@cache
def _random_texts() -> Mapping[str, Mapping[str, Template]]:
    from tilelang.isa.common.random_text import random_texts  # noqa: PLC0415  long tables, which few kernels need

    function = "__device__ __forceinline__"
    return random_texts(function, function, "#pragma unroll 1\n")
