"""Helpers for instructions of a warp: masks of lanes, predicates, shuffles.

Takes scalar expressions, emits calls, gives their results.
"""

from __future__ import annotations

from tilelang.dtypes import INT32, DType
from tilelang.errors import ProgramTypeError
from tilelang.ir.expr import Expr, ExprLike, Var, as_bool, as_expr, cast, const
from tilelang.isa.instruction import Instruction
from tilelang.language.calls import emit_call
from tilelang.targets.gpu.isa.lanes import FULL_MASK
from tilelang.targets.gpu.isa.warp import shuffle

MASK = DType("uint32")
"""The dtype of masks of lanes as programs write them."""

LANES = MASK.bits
"""The number of lanes of such a mask; `resolve_warp_size` refuses it where a warp has fewer or more."""


def call(what: str, instruction: Instruction, *operands: Expr) -> Var:
    """Emits the call of an instruction that has a result, and gives the result.

    Raises:
        ProgramError: It stands outside of a kernel.
    """
    result = emit_call(what, instruction, *operands, name=instruction.name)
    assert result is not None
    return result


def shuffled(what: str, mode: str, value: Expr, lane: int) -> Expr:
    """Return what each lane takes from another one of the warp by a shuffle of a mode; bools travel as numbers."""
    dtype, width = INT32 if value.dtype.is_bool else value.dtype, const(LANES, INT32)
    taken = call(what, shuffle(mode, dtype), lane_mask(FULL_MASK), cast(value, dtype), const(lane, INT32), width)
    return as_bool(taken) if value.dtype.is_bool else taken


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
    return const(mask & FULL_MASK, MASK) if isinstance(mask, int) else cast(mask, MASK)
