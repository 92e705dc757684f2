"""Which elements a fold can touch: only these have a total to be combined with what they held.

Takes a fold and the loop behind which its totals are combined, gives a condition on the variables that choose the
element. Invariant: the condition holds of every element that an iteration updates, and of none outside of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.spreading import Fold
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Expr, Load, conjunction, const, int_const, unary
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.stmt import Bind, For, If, ParallelLoop, Stmt
from tilelang.ir.visit import sub_statements, variables_of, walk, walk_expr


def touched(fold: Fold, loop: For | ParallelLoop) -> Expr | None:
    """When an element is one that iterations may update; None if all that variables name are.

    Args:
        fold: The fold.
        loop: Its parallel loop, or one around that, whose variables are gone when the totals are combined.

    Conditions that say more than which element it is are left out; then what is asked is that the element exists.
    """
    paths = [next(_conditions(loop.body, update.store)) for update in fold.updates]
    if any(not path for path in paths):
        return None  # where one update is under no test, all elements that are named exist
    inner = {stmt.var for stmt in walk(loop) if isinstance(stmt, Bind | For)}
    inner |= {var for stmt in walk(loop) if isinstance(stmt, ParallelLoop) for var in stmt.vars}
    others = inner - fold.moved_by

    def is_of_element(condition: Expr) -> bool:
        reads = any(isinstance(node, Load) for node in walk_expr(condition))
        return not reads and others.isdisjoint(variables_of(condition))

    kept = [[condition for condition in path if is_of_element(condition)] for path in paths]
    tests = list(kept[0]) if len(kept) == 1 else []
    if not tests or len(tests) < len(paths[0]):
        tests += _exists(fold)
    return conjunction(tests) if tests else None


def _exists(fold: Fold) -> Iterator[Expr]:
    if fold.buffer.scope is Scope.GLOBAL:  # accesses of which this is not proven are tested anyway
        return
    for index, extent in zip(fold.indices, fold.buffer.shape, strict=True):
        if int_const(index) is None:
            yield index >= const(0, INT32)
            yield index < extent


def _conditions(stmt: Stmt, store: Stmt, above: tuple[Expr, ...] = ()) -> Iterator[list[Expr]]:
    """The conditions around a store, outermost first."""
    if stmt is store:
        yield list(above)
        return
    if isinstance(stmt, If):
        yield from _conditions(stmt.then_body, store, (*above, stmt.condition))
        if stmt.else_body is not None:
            yield from _conditions(stmt.else_body, store, (*above, unary(UnaryOp.NOT, stmt.condition)))
        return
    for child in sub_statements(stmt):
        yield from _conditions(child, store, above)
