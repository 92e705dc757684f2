"""Every intrinsic a user can name, by that name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.isa.common.bits import BITS
from tilelang.isa.common.math import MATH
from tilelang.isa.intrinsic import Intrinsic

INTRINSICS: Mapping[str, Intrinsic] = MappingProxyType({record.name: record for record in (*MATH, *BITS)})
