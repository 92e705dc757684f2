"""The predicate of the elements that a reduction may update: only their totals are combined with the old values.

Takes a reduction and the loop after which its totals are combined, gives a condition on the variables that select the
element. Invariant: the condition holds for every element that an iteration updates, and for none outside the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.parallel_legality import ParallelReduction
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Expr, conjunction, const, int_const, unary
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.stmt import For, If, ParallelLoop, Stmt
from tilelang.ir.visit import defined_variables, loads_of, sub_statements, variables_of, walk


def update_predicate(reduction: ParallelReduction, loop: For | ParallelLoop) -> Expr | None:
    """The condition under which iterations may update an element; None if they may update all.

    Args:
        reduction: The reduction.
        loop: Its parallel loop, or an outer loop, after which the totals are combined.

    Conditions that depend on more than the element are dropped; in their stead the element must be in bounds.
    """
    paths = [next(_conditions(loop.body, update.store)) for update in reduction.updates]
    if any(not path for path in paths):
        return None  # an unconditional update: all elements are in bounds
    inner = {var for stmt in walk(loop) for var in defined_variables(stmt)}
    others = inner - reduction.selected_by

    def is_of_element(condition: Expr) -> bool:
        reads = bool(loads_of(condition))
        return not reads and others.isdisjoint(variables_of(condition))

    kept = [[condition for condition in path if is_of_element(condition)] for path in paths]
    tests = list(kept[0]) if len(kept) == 1 else []
    if not tests or len(tests) < len(paths[0]):
        tests += _exists(reduction)
    return conjunction(tests) if tests else None


def _exists(reduction: ParallelReduction) -> Iterator[Expr]:
    if reduction.buffer.scope is Scope.GLOBAL:  # bounds checks of global accesses are inserted by a later pass
        return
    for index, extent in zip(reduction.indices, reduction.buffer.shape, strict=True):
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
