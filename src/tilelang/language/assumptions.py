"""`T.assume`: what the user promises.

Takes conditions, leaves those that a call can check with the function, and the others as statements. Invariant: what
the compiler relies on is checked before anything is launched, or by an interpreter that comes there.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import ProgramRuntimeError
from tilelang.ir.assumption import Assume
from tilelang.ir.assumption import assume as assume_stmt
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Const, Expr, ExprLike, as_bool
from tilelang.ir.func import Param, ScalarParam, TensorParam
from tilelang.ir.stmt import Stmt
from tilelang.ir.visit import variables_of, walk, without
from tilelang.language.api import api
from tilelang.language.stage import current, reads_memory

__all__ = [
    "assume",
]


@api
def assume(cond: ExprLike) -> None:
    """Says that a condition holds, which the compiler uses from there on.

    A condition of dims and scalar parameters alone that stands outside of branches and loops is checked at every call.
    Any other holds for the statements after it in its block, as long as the memory that it looks at is not written
    again: tests of subscripts that follow from it are left out. Integers in it are compared as they count, whatever
    their widths. The reference and the simulator check it; elsewhere a program whose assumption does not hold has no
    meaning. The simulator leaves out conditions that look at global or shared memory.

    Args:
        cond: A truth value, usually an expression.

    Raises:
        ProgramRuntimeError: The condition is known to be false.
        ArgumentError: When the kernel is called and the condition of dims and scalar parameters does not hold.
        FalseAssumption: When an interpreter comes to a condition that does not hold.

    Example:
        `T.assume(N % 4 == 0)`, `T.assume(index >= 0 and index < N)`
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
    if in_kernel:
        stager.emit(assume_stmt(condition, stager.loc))


def known_before_launches(conditions: Sequence[Expr], params: Sequence[Param]) -> tuple[Expr, ...]:
    """The conditions that only use dims, strides and scalar parameters."""
    known = {param.var for param in params if isinstance(param, ScalarParam)}
    for param in params:
        if isinstance(param, TensorParam):
            for expr in (*param.shape, *(param.buffer.strides or ())):
                known |= variables_of(expr)
    return tuple(condition for condition in conditions if variables_of(condition) <= known)


def without_those(body: Stmt, conditions: Sequence[Expr]) -> Stmt:
    """A body without the assumptions that hold of the whole function."""
    keys = {expr_key(condition) for condition in conditions}
    return without(body, {s for s in walk(body) if isinstance(s, Assume) and expr_key(s.value) in keys})
