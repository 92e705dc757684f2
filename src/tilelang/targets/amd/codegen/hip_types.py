"""The dialect of HIP: the types of dtypes in memory and in expressions, and what the language leaves undefined."""

from __future__ import annotations

from types import MappingProxyType

from tilelang.codegen.dialect import Dialect
from tilelang.dtypes import DType
from tilelang.isa.intrinsic import Helper
from tilelang.targets.amd.isa.arithmetic import HELPERS
from tilelang.targets.amd.isa.convert import conversion
from tilelang.targets.amd.isa.instruction_texts import TEXTS
from tilelang.targets.amd.isa.intrinsics import templates
from tilelang.targets.amd.isa.types import hip_type


def storage_type(dtype: DType) -> str:
    """The type of one element in memory."""
    return hip_type(dtype).name


def storage_helpers(dtype: DType) -> tuple[Helper, ...]:
    """What must be defined before the storage type is named."""
    helper = hip_type(dtype).helper
    return () if helper is None else (helper,)


def value_type(dtype: DType) -> str:
    """The type of a value in an expression."""
    return hip_type(dtype).value


HIP = Dialect(
    language="hip",
    intrinsics=templates,
    instructions=TEXTS,
    storage_type=storage_type,
    storage_helpers=storage_helpers,
    value_type=value_type,
    conversion=conversion,
    helpers=HELPERS,
    index_types=MappingProxyType({32: "int", 64: "int64_t"}),
    least=MappingProxyType({32: "(-2147483647 - 1)", 64: "(-9223372036854775807LL - 1)"}),
    nan=MappingProxyType({32: '__builtin_nanf("")', 64: '__builtin_nan("")'}),
    infinity=MappingProxyType({32: "__builtin_inff()", 64: "__builtin_inf()"}),
    address="&{0}[{1}]",
    wraps=False,
    shifts=True,
    vectors=True,
    moves_bits=False,
    computes=frozenset({"float16"}),
)
