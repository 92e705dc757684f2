"""Recognizes reductions that are matrix products, which matrix units compute."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import reduce

from tilelang.dtypes import DType
from tilelang.ir.expr import Binary, Cast, Expr, Var
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import variables_of
from tilelang.level1.fused import FusedReduction
from tilelang.level1.graph import Combiner
from tilelang.ops.gemm import can_accumulate
from tilelang.records import record

INT8 = DType("int8")


@record(eq=False)
class Contraction:
    """`scale * sum(a * b)`.

    Attributes:
        a: The operand with the rows of the result.
        b: The one with the columns.
        scale: What does not vary along the reduced axes; may be None.
        rows: The axes of `a` that `b` lacks; at least one.
        columns: The axes of `b` that `a` lacks; at least one.
        batch: The axes that both have.
    """

    a: Expr
    b: Expr
    scale: Expr | None
    rows: tuple[Var, ...]
    columns: tuple[Var, ...]
    batch: tuple[Var, ...]


def contraction(reduction: FusedReduction, body: Expr | None = None) -> Contraction | None:
    """The operands of a reduction that is a sum of products; None if it is not.

    Args:
        reduction: The reduction.
        body: Used instead of its body: that of its incremental form.
    """
    if reduction.combiner is not Combiner.SUM:
        return None
    reduced = set(reduction.reduced)
    factors = list(_factors(reduction.body if body is None else body))
    varying = [factor for factor in factors if not reduced.isdisjoint(variables_of(factor))]
    groups = _grouped(varying, reduction.axes)
    if groups is None:
        return None
    constant = [factor for factor in factors if reduced.isdisjoint(variables_of(factor))]
    scale = reduce(operator.mul, constant) if constant else None
    a, b = groups
    if not reduction.array.dtype.is_float:
        small = all(without_widening(each).dtype == INT8 for each in (a, b))
        if not small or not can_accumulate(INT8, reduction.array.dtype):
            return None
    free_a, free_b = variables_of(a) - reduced, variables_of(b) - reduced
    rows = tuple(axis for axis in reduction.axes if axis in free_a and axis not in free_b)
    columns = tuple(axis for axis in reduction.axes if axis in free_b and axis not in free_a)
    if not rows or not columns:
        return None
    places = {axis: place for place, axis in enumerate(reduction.axes)}
    if places[rows[-1]] > places[columns[-1]]:
        a, b, rows, columns = b, a, columns, rows
    return Contraction(a, b, scale, rows, columns, tuple(axis for axis in reduction.axes if axis in free_a & free_b))


def _factors(expr: Expr) -> Iterator[Expr]:
    """The factors of a product."""
    inner = without_widening(expr)
    if isinstance(inner, Binary) and inner.op is BinaryOp.MUL:
        yield from _factors(inner.a)
        yield from _factors(inner.b)
    else:
        yield expr


def without_widening(expr: Expr) -> Expr:
    """An expression without conversions to a wider float, or a wider integer, which change no value."""
    match expr:
        case Cast(a=a, dtype=dtype) if a.dtype.is_float == dtype.is_float and a.dtype.bits <= dtype.bits:
            return expr if a.dtype.is_bool else without_widening(a)
    return expr


def _grouped(factors: list[Expr], axes: tuple[Var, ...]) -> tuple[Expr, Expr] | None:
    """The two operands: each factor goes with one that has all of its axes."""
    free = {factor: variables_of(factor) & set(axes) for factor in factors}
    ordered = sorted(factors, key=lambda factor: -len(free[factor]))
    for other in ordered[1:]:
        if not free[other] <= free[ordered[0]]:
            break
    else:
        return None
    operands: tuple[list[Expr], list[Expr]] = ([ordered[0]], [other])
    for factor in factors:
        if factor is ordered[0] or factor is other:
            continue
        fitting = [operand for operand in operands if free[factor] <= free[operand[0]]]
        if not fitting:
            return None
        fitting[0].append(factor)
    a, b = ([factor for factor in factors if any(factor is f for f in operand)] for operand in operands)
    return reduce(operator.mul, a), reduce(operator.mul, b)

