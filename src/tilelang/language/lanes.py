"""What calls of instructions of a warp have in common: masks of lanes, predicates, shuffles.

Takes scalar expressions, emits calls, gives their results.
"""

from __future__ import annotations

from tilelang.dtypes import INT32, DType
from tilelang.errors import ProgramError, ProgramTypeError
from tilelang.ir.expr import Expr, ExprLike, Var, as_bool, as_expr, cast, const
from tilelang.isa.instruction import Instruction
from tilelang.language.calls import emit_call
from tilelang.targets.gpu.isa.warp import shuffle

FULL_MASK = 0xFFFFFFFF
_UINT32 = DType("uint32")


def call(what: str, instruction: Instruction, *operands: Expr) -> Var:
    """Emits the call of an instruction that has a result, and gives the result.

    Raises:
        ProgramError: It stands outside of a kernel.
    """
    result = emit_call(what, instruction, *operands, name=instruction.name)
    assert result is not None
    return result


def shuffled(what: str, mode: str, value: ExprLike, lane: ExprLike, width: int, mask: ExprLike) -> Expr:
    """What each lane takes from another one by a shuffle of a mode; truth values travel as numbers.

    Raises:
        ProgramError: A shuffle has no such width.
    """
    operand = as_expr(value)
    if width not in (1, 2, 4, 8, 16, 32):
        raise ProgramError(f"{what}: width is {width!r:.40}", hint="write 1, 2, 4, 8, 16 or 32")
    dtype = INT32 if operand.dtype.is_bool else operand.dtype
    number = cast(operand, dtype)
    result = call(what, shuffle(mode, dtype), lane_mask(mask), number, cast(lane, INT32), const(width, INT32))
    return as_bool(result) if operand.dtype.is_bool else result


def as_predicate(what: str, predicate: ExprLike) -> Expr:
    """An integer or bool operand as a truth value.

    Raises:
        ProgramTypeError: It is something else.
    """
    operand = as_expr(predicate)
    if not operand.dtype.is_int and not operand.dtype.is_bool:
        raise ProgramTypeError(
            f"{what}: requires an integer or boolean predicate, got {operand.dtype!s}", hint="compare it: x != 0"
        )
    return as_bool(operand)


def lane_mask(mask: ExprLike) -> Expr:
    """A mask of lanes as instructions take it."""
    return const(mask & FULL_MASK, _UINT32) if isinstance(mask, int) else cast(mask, _UINT32)
