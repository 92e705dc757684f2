"""The dialect of HIP: types, conversions, and the texts of intrinsics and instructions."""

from __future__ import annotations

from types import MappingProxyType

from tilelang.codegen.dialect import Dialect
from tilelang.targets.amd.isa.arithmetic import HELPERS
from tilelang.targets.amd.isa.convert import CONVERSIONS
from tilelang.targets.amd.isa.instruction_texts import TEXTS
from tilelang.targets.amd.isa.intrinsics import templates
from tilelang.targets.amd.isa.types import hip_type

HIP = Dialect(
    language="hip",
    intrinsics=templates,
    instructions=TEXTS,
    c_type=hip_type,
    conversion=CONVERSIONS.cast,
    helpers=HELPERS,
    nan=MappingProxyType({32: '__builtin_nanf("")', 64: '__builtin_nan("")'}),
    infinity=MappingProxyType({32: "__builtin_inff()", 64: "__builtin_inf()"}),
    packed_arithmetic=frozenset({"float16"}),
)
