"""`Assume`: a condition that the user asserts by `T.assume`, for the compiler to rely on.

An assumption is a `Bind` of a name that nothing uses, so passes move and drop it like other bindings. Invariant:
removing all assumptions of a program does not change its results.
"""

from __future__ import annotations

from tilelang.dtypes import BOOL
from tilelang.errors import Loc
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var, const
from tilelang.ir.stmt import Bind, Stmt
from tilelang.ir.visit import loads_of, substitute, variables_of, walk, without
from tilelang.records import record


@record(eq=False)
class Assume(Bind):
    """A condition that holds at this point: `value`, bound to an unused name."""


def assume(condition: Expr, loc: Loc) -> Assume:
    """The `Assume` statement of a condition."""
    return Assume(Var("assumed", BOOL), condition, loc=loc)


def loaded_buffers(condition: Expr) -> frozenset[Buffer]:
    """The buffers that a condition loads from, each by its storage."""
    return frozenset([load.buffer.storage for load in loads_of(condition)])


def of_all_iterations(assumption: Assume, var: Var, trips: int) -> tuple[Assume, ...]:
    """An assumption in the body of a loop of constant trip count, instantiated for every iteration."""
    if var not in variables_of(assumption.value):
        return (assumption,)
    each = (substitute(assumption.value, {var: const(n, var.dtype)}) for n in range(trips))
    return tuple(assume(condition, assumption.loc) for condition in each)


def without_assumptions(body: Stmt) -> Stmt:
    """A body without its assumptions."""
    return without(body, {stmt for stmt in walk(body) if isinstance(stmt, Assume)})
