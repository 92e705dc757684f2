"""The dialect of CUDA C++: the types of dtypes in memory and in expressions, and what the language leaves undefined."""

from __future__ import annotations

import re
from types import MappingProxyType

from tilelang.codegen.dialect import Dialect
from tilelang.targets.nvidia.isa.arithmetic import CHOOSE, DIVIDE, HELPERS
from tilelang.targets.nvidia.isa.convert import CONVERSIONS
from tilelang.targets.nvidia.isa.instruction_texts import TEXTS
from tilelang.targets.nvidia.isa.intrinsics import templates
from tilelang.targets.nvidia.isa.types import cuda_type

# Source: CUDA C++ Programming Guide, "Built-in Vector Types", "Built-in Variables"; C math functions in float and the
# types of narrow floats, which generated text uses beside the user's names
RESERVED = re.compile(
    r"(u?char|u?short|u?int|u?long|u?longlong|float|double)[1-4]|dim3|(thread|block)Idx|(block|grid)Dim|warpSize|min|max"
    r"|\w+_t|clock(64)?|f?(abs|max|min|mod)f?|(exp|exp2|exp10|log|log2|log10|log1p|sqrt|r?sqrt|pow|a?(sin|cos|tan)h?"
    r"|atan2|erf|isfinite|floor|ceil|trunc|rint|round|copysign|fma|sincos|ldexp|hypot|nextafter)f?"
)
"""Names that the language reserves beyond those of C++."""


# signed overflow is undefined in CUDA C++, as in C++; __int_as_float and its kin are known without a header.
# Source: CUDA Math API, "Type Casting Intrinsics"
CUDA = Dialect(
    language="cuda",
    intrinsics=templates,
    instructions=TEXTS,
    c_type=cuda_type,
    conversion=CONVERSIONS.cast,
    helpers=HELPERS,
    nan=MappingProxyType({32: "__int_as_float(0x7fc00000)", 64: "__longlong_as_double(0x7ff8000000000000LL)"}),
    infinity=MappingProxyType({32: "__int_as_float(0x7f800000)", 64: "__longlong_as_double(0x7ff0000000000000LL)"}),
    packed_arithmetic=frozenset({"float16", "bfloat16"}),
    select=CHOOSE,
    quotient=DIVIDE,
)
