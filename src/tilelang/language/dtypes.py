"""The dtypes of the language by themselves, and questions about them.

Every dtype of `T` is a name of this module.
"""

from __future__ import annotations

from tilelang.dtypes import as_dtype
from tilelang.errors import DTypeError, OptionError
from tilelang.language.types import DTYPES, DTypeLike, dtype, user_dtype

AnyDType = DTypeLike  # for type hints

globals().update(DTYPES)

__all__ = [
    "AnyDType",
    "dtype",
    "get_tvm_dtype",
    "is_float4",
    "is_float4_e2m1_unpacked",
    "is_float4_e2m1fn",
    "resolve_torch_storage_dtype",
    *DTYPES,
]

_all_dtypes = set(DTYPES)


def get_tvm_dtype(value: DTypeLike) -> dtype:
    """The dtype object for a dtype in any spelling: a name, a dtype of Python, NumPy or torch.

    Raises:
        TypeError: It is none.
    """
    try:
        return user_dtype(value)
    except OptionError as error:
        raise DTypeError(error.message, hint=error.hint) from None


def resolve_torch_storage_dtype(value: DTypeLike) -> dtype:
    """The dtype in which torch holds tensors of a dtype: int8 for int4, a pair of values for float4_e2m1fn.

    Imports torch.

    Raises:
        TypeError: The value is no dtype.
        ValueError: torch cannot hold it.
    """
    return user_dtype(as_dtype(get_tvm_dtype(value).as_torch()))


def is_float4(value: DTypeLike) -> bool:
    """Whether elements are floats of 4 bits, packed or one in each byte."""
    row = get_tvm_dtype(value)
    return is_float4_e2m1fn(row) or is_float4_e2m1_unpacked(row)


def is_float4_e2m1fn(value: DTypeLike) -> bool:
    """Whether elements are floats of 4 bits, two in each byte; vectors of them, too."""
    return str(get_tvm_dtype(value)).startswith("float4_e2m1fn")


def is_float4_e2m1_unpacked(value: DTypeLike) -> bool:
    """Whether elements are floats of 4 bits, one in each byte."""
    return str(get_tvm_dtype(value)).startswith("float4_e2m1_unpacked")
