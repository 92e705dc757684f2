"""Bit operations on integers, one row per name: `BITS`.

Bits are counted in the width of the operand's dtype, signed or not.
"""

from __future__ import annotations

from functools import reduce

from tilelang.dtypes import INT32, SCALARS, DType, Kind, promote
from tilelang.errors import ProgramError
from tilelang.isa.common import meaning
from tilelang.isa.intrinsic import Intrinsic


def int32_result(dtypes: tuple[DType, ...]) -> DType:
    """A count is an int32."""
    return INT32


def unsigned_twin(dtypes: tuple[DType, ...]) -> DType:
    """The unsigned dtype of the operand's width.

    Raises:
        ProgramError: The operand is a float.
    """
    (dtype,) = dtypes
    if dtype.is_float:
        raise ProgramError(f"counting bits: needs an integer, got {dtype!s}", hint="write T.reinterpret(x, 'uint32')")
    return SCALARS[f"uint{dtype.bits}"]


def packed_dtype(dtypes: tuple[DType, ...]) -> DType:
    """uint32 when the packed operands are unsigned, otherwise int32.

    Raises:
        ProgramError: An operand is no integer of at most 32 bits.
    """
    dtype = reduce(promote, dtypes)
    if not dtype.is_int or dtype.bits > 32:
        raise ProgramError(f"T.dp4a: needs 32-bit integers that pack four bytes, got {dtype!s}")
    return SCALARS["uint32" if dtypes[0].kind is Kind.UINT and dtypes[1].kind is Kind.UINT else "int32"]


def bit_position(dtypes: tuple[DType, ...]) -> DType:
    """uint32: masks and positions have 32 bits; a position that does not exist has all bits set.

    Raises:
        ProgramError: An operand is no integer of at most 32 bits.
    """
    for dtype in dtypes:
        if not dtype.is_int or dtype.bits > 32:
            raise ProgramError(f"T.__fns: needs integers of at most 32 bits, got {dtype!s}", hint="convert with T.cast")
    return SCALARS["uint32"]


BITS: tuple[Intrinsic, ...] = (
    Intrinsic("popcount", 1, int32_result, meaning.popcount, unsigned_twin),
    Intrinsic("clz", 1, int32_result, meaning.leading_zeros, unsigned_twin),
    Intrinsic("fns", 3, bit_position, meaning.nth_set_bit, bit_position, "PTX ISA, fns"),
    Intrinsic("dp4a", 3, packed_dtype, meaning.dot4, packed_dtype, "CUDA C++ __dp4a"),
)
