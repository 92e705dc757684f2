"""C++ types of dtypes in memory and in expressions, and C++ text of basic operations.

Narrow floats and four-bit integers are *packed*: in memory they are structs of bits, in expressions they are the float
or int32_t of the same value. Invariant: the value of an expression of a packed dtype is representable in that dtype.
"""

from __future__ import annotations

from types import MappingProxyType

from tilelang.codegen.dialect import Dialect
from tilelang.dtypes import DType, lane_dtype
from tilelang.isa.common.convert import conversion, cpp_arithmetic, cpp_type
from tilelang.isa.intrinsic import Helper
from tilelang.targets.cpu.codegen.cpp_helpers import HELPERS
from tilelang.targets.cpu.isa.intrinsics import templates

VECTOR = Helper(
    "tl_vector",
    """\
// A few elements that move together.
template <typename T, int N> struct tl_vector { T lane[N]; };
""",
)


def storage_type(dtype: DType) -> str:
    """The type of one element in memory."""
    if dtype.lanes > 1:
        return f"tl_vector<{storage_type(lane_dtype(dtype))}, {dtype.lanes}>"
    return cpp_type(dtype).name


def storage_helpers(dtype: DType) -> tuple[Helper, ...]:
    """What must be defined before the storage type is named."""
    helper = cpp_type(lane_dtype(dtype)).helper
    return tuple(h for h in (VECTOR if dtype.lanes > 1 else None, helper) if h is not None)


def value_type(dtype: DType) -> str:
    """The type of a value in an expression."""
    return storage_type(dtype) if dtype.lanes > 1 else cpp_arithmetic(dtype)


# compiled with -fwrapv; all index arithmetic has 64 bits, which is free on a CPU
CPP = Dialect(
    language="cpp",
    intrinsics=templates,
    instructions=MappingProxyType({}),
    storage_type=storage_type,
    storage_helpers=storage_helpers,
    value_type=value_type,
    conversion=conversion,
    helpers=HELPERS,
    index_types=MappingProxyType({64: "int64_t"}),
    least=MappingProxyType({32: "INT32_MIN", 64: "INT64_MIN"}),
    nan=MappingProxyType({32: '__builtin_nanf("")', 64: '__builtin_nan("")'}),
    infinity=MappingProxyType({32: "__builtin_inff()", 64: "__builtin_inf()"}),
    address="{0} + {1}",
    wraps=True,
    shifts=False,
    vectors=False,
    moves_bits=True,
)
