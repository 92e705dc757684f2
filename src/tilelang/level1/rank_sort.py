"""Sorts along axes of which a block cannot hold a row: each element counts those that precede it, and is stored there.

    rank[i]         = number of j for which element j precedes element i
    sorted[rank[i]] = element i

Takes a sort, gives an array that scatters. Invariant: ranks are a permutation, since of equal elements the first one
precedes the others, so that no two updates have the same place.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, Var, as_expr, binary, cast, const, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.visit import substitute
from tilelang.isa.catalogue import INTRINSICS
from tilelang.language.math import apply
from tilelang.level1.graph import Array, Combiner, Map, Reduction, Scatter, Sort, axes_for, define, element
from tilelang.level1.promotion import compute_dtype


def sorted_by_rank(array: Array, sort: Sort) -> Array:
    """The array, made of the ranks of the elements that are sorted."""
    along, extent = sort.along, sort.extent
    shape = (*array.shape[:along], extent, *array.shape[along + 1 :])
    axes, other = axes_for(shape), Var("other", INT32, index=True)
    own, compared = (_key(_at(sort, (*axes[:along], place, *axes[along + 1 :]))) for place in (axes[along], other))
    precedes = _precedes(compared, own, is_earlier=other < axes[along], descending=sort.descending)
    counted = Reduction(axes, (other,), (extent,), Combiner.SUM, cast(precedes, INT32))
    rank = define(f"{array.name}_rank", shape, INT32, counted, loc=array.loc)
    empty = Map(axes_for(array.shape), const(0, array.dtype))
    base = define(
        f"{array.name}_empty", array.shape, array.dtype, empty, stored_dtype=array.stored_dtype, loc=array.loc
    )
    axes = axes_for(shape)
    places = (*axes[:along], element(rank, axes), *axes[along + 1 :])
    value = cast(axes[along] if sort.gives_index else _at(sort, axes), array.dtype)
    return dataclasses.replace(array, definition=Scatter(base, axes, shape, places, value, None))


def _at(sort: Sort, axes: tuple[Var, ...]) -> Expr:
    return substitute(sort.body, dict(zip(sort.axes, axes, strict=True)))


def _key(value: Expr) -> Expr:
    """What is compared: the value, in a dtype of which every machine compares numbers."""
    dtype = compute_dtype(value.dtype)
    return cast(value, INT32 if dtype.is_bool else dtype)


def _precedes(a: Expr, b: Expr, *, is_earlier: Expr, descending: bool) -> Expr:
    """Whether a comes before b; where they are equal, the earlier one does."""
    if descending:
        return select(is_earlier, _is_not_above(b, a), unary(UnaryOp.NOT, _is_not_above(a, b)))
    return select(is_earlier, _is_not_above(a, b), unary(UnaryOp.NOT, _is_not_above(b, a)))


def _is_not_above(a: Expr, b: Expr) -> Expr:
    """Whether `a <= b`, where NaN is equal to itself and above all numbers."""
    below: Expr = a <= b
    return binary(BinaryOp.OR, below, as_expr(apply(INTRINSICS["isnan"], b))) if b.dtype.is_float else below
