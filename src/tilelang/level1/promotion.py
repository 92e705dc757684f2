"""Type promotion: the dtype of the result of an operation, and the one in which it is computed.

The rules of the Python array API standard, and beyond it one: operands of different kinds are accepted where the result
holds every value of each of them; no conversion that may lose precision happens silently. A number of Python, a size
and a position (`tnp.arange` without a dtype) are *weak*: they take the dtype of what they are combined with.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import ml_dtypes

from tilelang.dtypes import BOOL, FLOAT32, FLOAT64, INT32, SCALARS, DType, Kind, as_dtype
from tilelang.errors import ProgramTypeError
from tilelang.records import record


@record
class OperandDType:
    """The dtype of an operand, and whether it is weak: whether the operation takes the dtype of the others."""

    dtype: DType
    weak: bool = False


def promote(what: str, operands: Sequence[OperandDType]) -> OperandDType:
    """The dtype of the result of `what`.

    Raises:
        ProgramTypeError: It would not hold all values of an operand.
    """
    strong = [operand.dtype for operand in operands if not operand.weak]
    weak = {operand.dtype.kind for operand in operands if operand.weak}
    if not strong:
        default = FLOAT32 if Kind.FLOAT in weak else INT32 if Kind.INT in weak else BOOL
        return OperandDType(default, weak=True)
    result = reduce(lambda a, b: _common_dtype(what, a, b), strong)
    if Kind.FLOAT in weak and not result.is_float:
        result = as_float(what, result)
    elif Kind.INT in weak and result.is_bool:
        result = INT32
    return OperandDType(result)


def as_float(what: str, dtype: DType) -> DType:
    """The dtype in which a function of floats takes a dtype: itself for floats, float32 for integers that it holds.

    Raises:
        ProgramTypeError: float32 does not hold all of them.
    """
    return dtype if dtype.is_float else _common_dtype(what, dtype, FLOAT32)


def holds_all_values(dtype: DType, other: DType) -> bool:
    """Whether a dtype represents all values of another one."""
    if dtype == other or other.is_bool:
        return True
    if dtype.is_bool or dtype.is_int and other.is_float:
        return False
    (low, high), (other_low, other_high) = dtype.limits, other.limits
    if other.is_int and dtype.is_float:
        return bool(max(abs(other_low), other_high + 1) <= 2 ** _significand_bits(dtype))  # integers up to it are exact
    if not (low <= other_low and other_high <= high):
        return False
    if dtype.is_int:
        return True
    precise = _significand_bits(dtype) >= _significand_bits(other)
    return precise and _min_subnormal(dtype) <= _min_subnormal(other)


def _significand_bits(dtype: DType) -> int:
    """Bits of a float's significand, the implicit one included."""
    return 11 if dtype == "tfloat32" else int(ml_dtypes.finfo(dtype.numpy).nmant) + 1


def _min_subnormal(dtype: DType) -> float:
    return float(ml_dtypes.finfo(dtype.numpy).smallest_subnormal)


def _common_dtype(what: str, a: DType, b: DType) -> DType:
    for dtype, other in ((a, b), (b, a)):
        if holds_all_values(dtype, other):
            return dtype
    if a.is_int and b.is_int:  # of either sign
        wider = next((d for d in _SIGNED if holds_all_values(d, a) and holds_all_values(d, b)), None)
    elif a.is_float and b.is_float:
        wider = next((d for d in (FLOAT32, FLOAT64) if holds_all_values(d, a) and holds_all_values(d, b)), None)
    else:
        wider = None
    if wider is not None:
        return wider
    if a.is_int and b.is_int:
        needed = "there is no integer dtype that has all values of both"
    else:
        float_dtype, integer = (a, b) if a.is_float else (b, a)
        exact = f"2**{_significand_bits(float_dtype)}"
        needed = f"{float_dtype!s} has integers exactly only up to {exact}, {integer!s} has greater ones"
    target = a if a.is_float else b
    raise ProgramTypeError(
        f"{what}: {a!s} with {b!s} would lose precision silently; {needed}",
        hint=f'convert one of them: x.astype("{target!s}")',
    )


_SIGNED = tuple(SCALARS[name] for name in ("int8", "int16", "int32", "int64"))


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which arithmetic on values of a dtype happens: float32 for narrower floats, else the same."""
    return FLOAT32 if dtype.is_float and (dtype.bits < 32 or dtype == "tfloat32") else dtype


def sum_dtype(dtype: DType) -> DType:
    """The dtype of sums and products over an axis: int32 for bool and integers below 32 bits, else the same."""
    return INT32 if dtype.is_bool or dtype.is_int and dtype.bits < 32 else dtype


@record
class SumDTypes:
    """The dtypes of a sum.

    Attributes:
        combined: That of the values that are added.
        result: That of the result.
    """

    combined: DType
    result: DType


def sum_dtypes(what: str, given: DType, dtype: object, accumulate: object) -> SumDTypes:
    """The dtypes of a sum of values of a dtype, as the arguments `dtype` and `accumulate` say.

    Raises:
        ProgramTypeError: Floats would be added as integers.
    """
    result = sum_dtype(given) if dtype is None else as_dtype(dtype)
    if accumulate is not None:
        combined = as_dtype(accumulate)
        if given.is_float and not combined.is_float:
            raise ProgramTypeError(
                f"{what}: accumulate is {combined!s}, which has no fractions, and the values are {given!s}",
                hint=f'write accumulate="float32", and dtype="{combined!s}" for an integer as the result',
            )
        return SumDTypes(combined, result)
    own, wanted = compute_dtype(sum_dtype(given)), compute_dtype(sum_dtype(result))
    is_exact = own.is_float or own != given  # integers below 32 bits
    keep = own.bits >= wanted.bits if own.is_float == wanted.is_float else is_exact
    return SumDTypes(own if keep else wanted, result)
