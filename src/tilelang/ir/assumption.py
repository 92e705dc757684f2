"""`Assume`: a condition that the user asserts by `T.assume`, for the compiler to rely on.

An assumption is a `Bind` of a name that nothing uses, so passes move and drop it like other bindings. Invariant:
removing all assumptions of a program does not change its results.
"""

from __future__ import annotations

from tilelang.dtypes import BOOL
from tilelang.errors import Loc
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Load, Var, const
from tilelang.ir.stmt import Bind, Stmt
from tilelang.ir.visit import children, substitute, variables_of, walk, without
from tilelang.records import record

_NONE: frozenset[Buffer] = frozenset()


@record(eq=False)
class Assume(Bind):
    """A condition that holds at this point: `value`, bound to an unused name."""


def assume(condition: Expr, loc: Loc) -> Assume:
    """The `Assume` statement of a condition."""
    return Assume(Var("assumed", BOOL), condition, loc=loc)


def loaded_buffers(condition: Expr) -> frozenset[Buffer]:
    """The buffers that a condition loads from, each by its storage; cached on the node."""
    cached: frozenset[Buffer] | None = condition.__dict__.get("_loaded_buffers")
    if cached is None:
        cached = _NONE.union(*[loaded_buffers(child) for child in children(condition)])
        if isinstance(condition, Load):
            cached |= {condition.buffer.storage}
        condition.__dict__["_loaded_buffers"] = cached
    return cached


def of_all_iterations(assumption: Assume, var: Var, trips: int) -> tuple[Assume, ...]:
    """An assumption in the body of a loop of constant trip count, instantiated for every iteration."""
    if var not in variables_of(assumption.value):
        return (assumption,)
    each = (substitute(assumption.value, {var: const(n, var.dtype)}) for n in range(trips))
    return tuple(assume(condition, assumption.loc) for condition in each)


def without_assumptions(body: Stmt) -> Stmt:
    """A body without its assumptions."""
    return without(body, {stmt for stmt in walk(body) if isinstance(stmt, Assume)})
