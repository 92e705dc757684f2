"""The dtypes of the language, texts that can be called, and questions about them.

Takes dtypes in any spelling, gives `dtype` objects. Every dtype of `T` is a name of this module.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tilelang.dtypes import ALIASES, HANDLE, SCALARS, VOID, DType, Kind, as_dtype, lane_dtype
from tilelang.errors import DTypeError, OptionError, ProgramError, ProgramTypeError
from tilelang.ir.expr import Expr, ExprLike, as_expr, cast, const
from tilelang.ir.expr import Var as Variable
from tilelang.ir.vector import pack
from tilelang.language.api import api

AnyDType = object  # a name, a dtype of this package, of NumPy, of torch, or a Python type
LANES = (2, 4, 8, 16, 32, 64)  # of the vectors that have names


class dtype(DType):
    """A dtype as users see it: equal to its name, and callable as a cast.

    `T.float16 == "float16"`; `T.float32(x)` converts an expression, `T.float32(1.5)` is a constant of exactly that
    dtype, `T.float32("inf")` is infinity, `T.int32()` is an unnamed variable. `T.float16x2(a, b)` is a vector of two
    lanes, `T.float16x2(a)` has `a` in each of them. Also an annotation of scalar parameters: `n: T.int32`.

    Example:
        `scale = T.float32(1.0) / T.sqrt(T.float32(head_dim))`
    """

    __slots__ = ()

    @api
    def __new__(cls, name: object) -> dtype:
        """The dtype meant by `name`, in any spelling.

        Raises:
            OptionError: There is no such name; also a `ValueError`.
            DTypeError: `name` is no dtype of any kind; also a `TypeError`.
        """
        row = _OPAQUE[name] if isinstance(name, str) and name in _OPAQUE else as_dtype(name)
        return cls._make(str(row), row.kind, row.bits, row.lanes, row.numpy)  # type: ignore[return-value]

    @api
    def __call__(self, *values: ExprLike | str) -> Expr:
        """The value converted to this dtype, or its lanes; without a value, an unnamed variable.

        Raises:
            ProgramTypeError: The number of values is neither one nor that of the lanes; also a `TypeError`.
        """
        what = f"T.{self!s}"
        if not values:
            return Variable("unnamed", as_dtype(str(self)), index=self.is_int)
        if len(values) not in (1, self.lanes):
            raise ProgramTypeError(
                f"{what}: {len(values)} values do not make {self!s}", hint=f"write one value, or {self.lanes}"
            )
        whole = len(values) == 1 and isinstance(values[0], Expr) and values[0].dtype.lanes == self.lanes
        if self.lanes == 1 or whole:
            return convert_to(values[0], self, what)
        lane = lane_dtype(self)
        return pack([convert_to(value, lane, what) for value in values] * (self.lanes // len(values)))


_OPAQUE = {str(row): row for row in (HANDLE, VOID)}
DataType = dtype


def convert_to(value: ExprLike | str, target: DType, what: str) -> Expr:
    """`value` as an expression of `target`, for casts that users write.

    Raises:
        ProgramError: The value is not a scalar, or its vector width differs.
    """
    if target.kind is Kind.OPAQUE:
        raise ProgramTypeError(f"{what}: no value has the dtype {target!s}", hint="an address is an int64")
    row = as_dtype(str(target))
    if isinstance(value, str):
        if value.strip("+-").lower() not in ("inf", "infinity", "nan") or not row.is_float:
            raise ProgramError(
                f"{what}: {value!r} is not a number", hint="strings are only for 'inf', '-inf' and 'nan'"
            )
        return const(builtins.float(value), row)
    expr = as_expr(value)
    if expr.dtype.lanes != row.lanes:
        raise ProgramError(f"{what}: cannot convert {expr.dtype!s} to {row!s}: they differ in lanes")
    return cast(expr, row)


@cache
def _named(name: str) -> dtype:
    return dtype(name)


def user_dtype(value: AnyDType) -> dtype:
    """The callable form of a dtype in any spelling."""
    return _named(str(value) if isinstance(value, DType) else str(as_dtype(value)))


def _dtype_table() -> dict[str, dtype]:
    table = {name: _named(name) for name in SCALARS}
    table.update({f"{name}x{lanes}": _named(f"{name}x{lanes}") for name in SCALARS for lanes in LANES})
    table.update({alias: _named(name) for alias, name in ALIASES.items()})
    table.update({name: _named(name) for name in _OPAQUE})
    return table


DTYPES: Mapping[str, dtype] = MappingProxyType(_dtype_table())  # every name T.<name> that is a dtype

_all_dtypes = set(DTYPES)

globals().update(DTYPES)  # `float`, `int` and `bool` among them: functions here write `builtins.float`

__all__ = [
    "AnyDType",
    "DataType",
    "dtype",
    "get_tvm_dtype",
    "is_float4",
    "is_float4_e2m1_unpacked",
    "is_float4_e2m1fn",
    "resolve_torch_storage_dtype",
    *DTYPES,
]


def get_tvm_dtype(value: AnyDType) -> dtype:
    """The dtype object for a dtype in any spelling: a name, a dtype of Python, NumPy or torch.

    Raises:
        TypeError: It is none.
    """
    try:
        return user_dtype(value)
    except OptionError as error:
        raise DTypeError(error.message, hint=error.hint) from None


def resolve_torch_storage_dtype(value: AnyDType) -> dtype:
    """The dtype in which torch holds tensors of a dtype: int8 for int4, a pair of values for float4_e2m1fn.

    Imports torch.

    Raises:
        TypeError: The value is no dtype.
        ValueError: torch cannot hold it.
    """
    return user_dtype(as_dtype(get_tvm_dtype(value).as_torch()))


def is_float4(value: AnyDType) -> bool:
    """Whether elements are floats of 4 bits, packed or one in each byte."""
    return get_tvm_dtype(value).is_float4()


def is_float4_e2m1fn(value: AnyDType) -> bool:
    """Whether elements are floats of 4 bits, two in each byte; vectors of them, too."""
    return get_tvm_dtype(value).is_float4_e2m1fn()


def is_float4_e2m1_unpacked(value: AnyDType) -> bool:
    """Whether elements are floats of 4 bits, one in each byte."""
    return get_tvm_dtype(value).is_float4_e2m1_unpacked()
