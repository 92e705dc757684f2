"""`Assume`: a condition that the user promises.

A promise has a name as the value of a `Bind` has one, so that every pass treats it like the other names among the
statements: it moves with them, and is dropped where it cannot stay. Nothing uses the name. Invariant: a program
without its assumptions computes the same, if they hold.
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
    """Says that a condition holds where it stands: `value`, under a name that nothing uses."""


def assume(condition: Expr, loc: Loc) -> Assume:
    """The statement for a condition."""
    return Assume(Var("assumed", BOOL), condition, loc=loc)


def loaded_buffers(condition: Expr) -> frozenset[Buffer]:
    """The memory that a condition looks at, each by the buffer that owns it; kept on the node."""
    known: frozenset[Buffer] | None = condition.__dict__.get("_loaded_buffers")
    if known is None:
        known = _NONE.union(*[loaded_buffers(child) for child in children(condition)])
        if isinstance(condition, Load):
            known |= {condition.buffer.storage}
        condition.__dict__["_loaded_buffers"] = known
    return known


def of_all_iterations(promise: Assume, var: Var, trips: int) -> tuple[Assume, ...]:
    """What the body of a loop promises, for each of the iterations from 0 on by itself."""
    if var not in variables_of(promise.value):
        return (promise,)
    each = (substitute(promise.value, {var: const(n, var.dtype)}) for n in range(trips))
    return tuple(assume(condition, promise.loc) for condition in each)


def without_promises(body: Stmt) -> Stmt:
    """A body that promises nothing."""
    return without(body, {stmt for stmt in walk(body) if isinstance(stmt, Assume)})
