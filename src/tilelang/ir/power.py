"""Powers with a constant exponent as multiplications, by repeated squaring.

Takes fewer than twice as many multiplications as the exponent has binary digits.
"""

from __future__ import annotations

from tilelang.errors import ProgramError
from tilelang.ir.expr import Expr, ExprLike, cast, int_const


def power(base: Expr, exponent: ExprLike) -> Expr:
    """`base ** exponent` for a constant integer exponent.

    Raises:
        ProgramError: The exponent is something else, or negative for an integer.
    """
    times = int_const(exponent)
    if times is None or abs(times) > 64:
        raise ProgramError(
            "operator **: the exponent must be a constant integer of at most 64", hint="write T.pow(x, y) or T.sqrt(x)"
        )
    if times < 0:
        if not base.dtype.is_float:
            raise ProgramError(f"operator **: an integer to the power {times} is no integer", hint="write T.pow(x, y)")
        return 1 / power(base, -times)
    if times == 0:
        return cast(1, base.dtype)
    result = base
    for bit in bin(times)[3:]:  # below the leading digit: square for each, multiply for each 1
        result = result * result
        result = result * base if bit == "1" else result
    return result
