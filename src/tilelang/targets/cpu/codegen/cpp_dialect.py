"""C++ types of dtypes in memory and in expressions, and C++ text of basic operations.

Narrow floats and four-bit integers are *packed*: in memory they are structs of bits, in expressions they are the float
or int32_t of the same value. Invariant: the value of an expression of a packed dtype is representable in that dtype.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

from tilelang.codegen.dialect import Dialect
from tilelang.dtypes import DType, lane_dtype
from tilelang.isa.c_type import CType
from tilelang.isa.common.convert import conversion, cpp_type
from tilelang.isa.intrinsic import Helper, needed
from tilelang.targets.cpu.codegen.cpp_helpers import HELPERS
from tilelang.targets.cpu.isa.intrinsics import templates

VECTOR = Helper(
    "tl_vector",
    """\
// A few elements that move together.
template <typename T, int N> struct tl_vector { T lane[N]; };
""",
)


@cache
def c_type(dtype: DType) -> CType:
    """The types of a dtype; a short vector is a struct of its lanes."""
    element = cpp_type(lane_dtype(dtype))
    if dtype.lanes == 1:
        return element
    name = f"tl_vector<{element.name}, {dtype.lanes}>"
    return CType(name, name, Helper(f"vector of {element.name}", "", needs=needed(VECTOR, element.helper)))


# compiled with -fwrapv; all index arithmetic has 64 bits, which is free on a CPU
CPP = Dialect(
    language="cpp",
    intrinsics=templates,
    instructions=MappingProxyType({}),
    c_type=c_type,
    conversion=conversion,
    helpers=HELPERS,
    index_types=MappingProxyType({64: "int64_t"}),
    min_int=MappingProxyType({32: "INT32_MIN", 64: "INT64_MIN"}),
    nan=MappingProxyType({32: '__builtin_nanf("")', 64: '__builtin_nan("")'}),
    infinity=MappingProxyType({32: "__builtin_inff()", 64: "__builtin_inf()"}),
    address="{0} + {1}",
    overflow_wraps=True,
    divides_by_shifts=False,
    has_vectors=False,
    copies_bits=True,
)
