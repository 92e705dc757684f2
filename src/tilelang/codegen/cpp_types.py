"""How dtypes look in C++: the type of an element in memory and the type of a value in an expression.

Narrow floats and four-bit integers are *packed*: in memory they are structs of bits, in expressions they are the float
or int32_t of the same value. Invariant: the value of an expression of a packed dtype is representable in that dtype.
"""

from __future__ import annotations

from tilelang.dtypes import DType, lane_dtype
from tilelang.isa.common.convert import cpp_arithmetic, cpp_type
from tilelang.isa.intrinsic import Helper

VECTOR = Helper(
    "tl_vector",
    """\
// A few elements that move together.
template <typename T, int N> struct tl_vector { T lane[N]; };
""",
)


def is_packed(dtype: DType) -> bool:
    """Whether memory holds bits that become a number by a conversion."""
    return dtype.lanes == 1 and (dtype.is_float and dtype.bits < 32 or dtype.is_int and dtype.bits < 8)


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
