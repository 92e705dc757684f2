"""`T.assume`: what the user promises.

Takes conditions, leaves those that a call can check with the function. Invariant: what the compiler relies on is
checked before anything is launched.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import ProgramRuntimeError
from tilelang.ir.expr import Const, Expr, ExprLike, as_bool
from tilelang.ir.func import Param, ScalarParam, TensorParam
from tilelang.ir.visit import variables_of
from tilelang.language.api import api
from tilelang.language.stage import current, reads_memory

__all__ = [
    "assume",
]


@api
def assume(cond: ExprLike) -> None:
    """Says that a condition holds, which the compiler may use.

    A condition of dims and scalar parameters alone that stands outside of branches and loops is checked at every call;
    others are not checked, and nothing relies on them.

    Args:
        cond: A truth value, usually an expression.

    Raises:
        ProgramRuntimeError: The condition is known to be false.
        ArgumentError: When the kernel is called and the condition does not hold.

    Example:
        `T.assume(N % 4 == 0)`
    """
    stager = current("T.assume")
    condition = as_bool(cond)
    if isinstance(condition, Const):
        if not condition.value:
            raise ProgramRuntimeError("T.assume: the condition is false for these sizes. Assume: False")
        return
    in_kernel = stager.hints is not None
    if stager.depth <= 1 + in_kernel and not reads_memory(condition):
        stager.assumptions.append(condition)


def known_before_launches(conditions: Sequence[Expr], params: Sequence[Param]) -> tuple[Expr, ...]:
    """Those of the conditions that speak of dims, strides and scalar parameters alone."""
    known = {param.var for param in params if isinstance(param, ScalarParam)}
    for param in params:
        if isinstance(param, TensorParam):
            for expr in (*param.shape, *(param.buffer.strides or ())):
                known |= variables_of(expr)
    return tuple(condition for condition in conditions if variables_of(condition) <= known)
