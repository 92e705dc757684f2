"""Expressions that take one value of a few bits out of a packed word and convert it.

Each function takes the dtype of the words, as `storage_type` and `storage_nbit`, and gives a function of

- `nbit`: how many bits a value has;
- `val`: a word;
- `pos`: which value of the word is meant, counted from the lowest bits;
- `dtype`: what it is converted to.

Invariant: an expression of a word with another dtype is never made.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.api import public
from tilelang.dtypes import DType, as_dtype
from tilelang.errors import ProgramAssertionError
from tilelang.ir.expr import Expr, ExprLike, Reinterpret, as_expr, cast, select
from tilelang.ir.expr import const as constant
from tilelang.language.types import DTypeLike, plain_dtype

Convert = Callable[[int, ExprLike, ExprLike, DTypeLike], Expr]
_WORD = as_dtype("uint32")  # wide enough for a word of any storage, and for what shifts need


@public
def _tir_packed_to_unsigned_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Convert:
    """Values are unsigned."""
    storage = as_dtype(f"{storage_type}{storage_nbit}")

    def convert(nbit: int, val: ExprLike, pos: ExprLike, dtype: DTypeLike) -> Expr:
        return cast(_field(storage, nbit, val, pos), plain_dtype(dtype, "convert"))

    return convert


@public
def _tir_packed_to_unsigned_convert_with_zeros(
    storage_type: str = "uint", storage_nbit: int = 8
) -> Callable[[int, ExprLike, ExprLike, ExprLike, DTypeLike], Expr]:
    """Values are unsigned, and a zero point is subtracted: `convert(nbit, val, pos, zero, dtype)`."""
    plain = _tir_packed_to_unsigned_convert(storage_type, storage_nbit)

    def convert(nbit: int, val: ExprLike, pos: ExprLike, zero: ExprLike, dtype: DTypeLike) -> Expr:
        return plain(nbit, val, pos, dtype) - cast(as_expr(zero), plain_dtype(dtype, "convert"))

    return convert


@public
def _tir_packed_to_signed_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Convert:
    """Values are signed, stored with half of their range added: 0 stands for the smallest one."""
    plain = _tir_packed_to_unsigned_convert(storage_type, storage_nbit)

    def convert(nbit: int, val: ExprLike, pos: ExprLike, dtype: DTypeLike) -> Expr:
        return plain(nbit, val, pos, dtype) - constant(1 << (nbit - 1), plain_dtype(dtype, "convert"))

    return convert


@public
def _tir_packed_int_to_int_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Convert:
    """Values are signed, in two's complement."""
    storage = as_dtype(f"{storage_type}{storage_nbit}")

    def convert(nbit: int, val: ExprLike, pos: ExprLike, dtype: DTypeLike) -> Expr:
        field = cast(_field(storage, nbit, val, pos), as_dtype("int32"))
        rest = 32 - nbit
        return cast((field << rest) >> rest, plain_dtype(dtype, "convert"))

    return convert


@public
def _tir_packed_to_fp4_to_f16(storage_type: str = "uint", storage_nbit: int = 8) -> Convert:
    """Values are floats of 4 bits, a sign and three bits of exponent e: 2 to the power of e - 7, and 0 where e is 0.

    The result is float16: its exponent is the same with 8 added, since its bias is 15.
    """
    storage = as_dtype(f"{storage_type}{storage_nbit}")

    def convert(nbit: int, val: ExprLike, pos: ExprLike, dtype: DTypeLike) -> Expr:
        result = plain_dtype(dtype, "convert")
        if nbit != 4 or result != "float16":
            raise ProgramAssertionError(
                f"_tir_packed_to_fp4_to_f16: values of 4 bits become float16, given {nbit} bits and {result!s}"
            )
        field = _field(storage, 4, val, pos)
        exponent = field & 7
        bits = ((exponent | 8) << 10) | ((field >> 3) << 15)
        value = Reinterpret(cast(bits, as_dtype("uint16")), result)
        return select(exponent == 0, constant(0.0, result), value)

    return convert


def _field(storage: DType, nbit: int, val: ExprLike, pos: ExprLike) -> Expr:
    """The bits of a value, as uint32.

    Raises:
        ProgramAssertionError: The word has another dtype than the storage.
    """
    word = as_expr(val)
    if word.dtype != storage:
        raise ProgramAssertionError(
            f"packed values: the words are {word.dtype!s}, but the storage is {storage!s}",
            hint=f"pass storage_type={str(word.dtype).rstrip('0123456789')!r}, storage_nbit={word.dtype.bits}",
        )
    if word.dtype.bits < _WORD.bits:  # in its own bits first, or its sign would fill the others
        word = cast(word, as_dtype(f"uint{word.dtype.bits}"))
    shift = cast(as_expr(pos), _WORD) * constant(nbit, _WORD)
    return (cast(word, _WORD) >> shift) & constant((1 << nbit) - 1, _WORD)
