"""Access maps of a loop nest: the element of a tile that an iteration accesses, as a digit map.

Takes the subscripts of an access in a `ParallelLoop`, gives an `AccessMap`. Invariant: the map is exact; None for
subscripts that are not sums of digits of the nest's variables and of variables that each thread iterates over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tilelang.arith.affine import Sum, to_expr
from tilelang.arith.domain import Domain
from tilelang.arith.interval import Analysis, analysis_of
from tilelang.arith.ranges import Interval
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.visit import walk_expr
from tilelang.layout.digits import DigitMap, Mode, unit
from tilelang.layout.fit import fit
from tilelang.records import record


@record
class AccessMap:
    """A map from iterations to elements.

    Attributes:
        map: From nest coordinates, then per-thread inputs, to buffer coordinates.
        free: Number of per-thread inputs: loops inside of the nest, unrolled ones around it, and parts of the buffer.
    """

    map: DigitMap
    free: int

    @property
    def forgets(self) -> bool:
        """Whether several iterations access one element: the map is not injective."""
        nest = self.map.inputs[: len(self.map.inputs) - self.free]
        return any(mode.is_broadcast and mode.size > 1 for modes in nest for mode in modes)


def access_map(
    indices: Sequence[Expr],
    variables: Sequence[Var],
    extents: Sequence[int],
    shape: Sequence[int],
    domain: Domain,
    per_thread: Collection[Var] = (),
) -> AccessMap | None:
    """The map of an access; None if it is no digit map.

    Args:
        indices: The subscripts.
        variables: The variables of the nest.
        extents: The extents of the nest.
        shape: The shape of the buffer.
        domain: Facts that hold at the access.
        per_thread: Variables of other loops with constant trip counts; other variables in a subscript have no map.
    """
    analysis = analysis_of(domain)
    known = frozenset((*variables, *per_thread))
    inner: list[Sum] = []
    outer: list[Sum] = []
    for index in indices:
        parts = _split(analysis.sum(index), frozenset(variables))
        if parts is None or not _names_only(index, known):
            return None
        inner.append(parts[0])
        outer.append(parts[1])
    nest = _nest_digits(inner, variables, extents, tuple(shape))
    if nest is None:
        return None
    alone: list[Mode] = []
    for axis, extent in enumerate(shape):
        free = _free_digits(nest, axis, extent)
        if free is None or not _changes_free_digits_only(outer[axis], nest, axis, analysis):
            return None
        alone += free
    return AccessMap(DigitMap((*nest.inputs, *((mode,) for mode in alone)), tuple(shape)), len(alone))


def _names_only(index: Expr, known: frozenset[Var]) -> bool:
    """Whether a subscript uses these variables only, even where others would cancel out."""
    return all(
        node in known if isinstance(node, Var) else not isinstance(node, Load) for node in walk_expr(index)
    )


def _split(total: Sum, mine: frozenset[Var]) -> tuple[Sum, Sum] | None:
    """A subscript split into a sum over the nest's variables and the rest; None if a term has both."""
    inner, outer = Sum({}, 0), Sum({}, total.constant)
    for term, coefficient in total.terms.items():
        named = {node for key in term for node in walk_expr(key.expr) if isinstance(node, Var)}
        if named <= mine:
            inner = inner.plus(Sum({term: coefficient}, 0))
        elif named & mine:
            return None
        else:
            outer = outer.plus(Sum({term: coefficient}, 0))
    return inner, outer


def _nest_digits(
    sums: Sequence[Sum], variables: Sequence[Var], extents: Sequence[int], shape: tuple[int, ...]
) -> DigitMap | None:
    """The part of the subscripts that depends on the nest, as digits of its variables."""
    rank = len(shape)
    strides = {var: [0] * rank for var in variables}
    for axis, total in enumerate(sums):
        for term, coefficient in total.terms.items():
            var = term[0].expr
            if len(term) > 1 or not isinstance(var, Var):
                return _by_table(sums, variables, extents, shape)
            if coefficient < 0:
                return None
            strides[var][axis] = coefficient
    inputs = tuple((Mode(n, tuple(strides[var])),) for var, n in zip(variables, extents, strict=True))
    return DigitMap(inputs, shape)


def _by_table(
    sums: Sequence[Sum], variables: Sequence[Var], extents: Sequence[int], shape: tuple[int, ...]
) -> DigitMap | None:
    grid = np.indices(tuple(extents), dtype=np.int64)
    axis_digits = dict(zip(variables, grid, strict=True))
    table = np.zeros((*extents, len(shape)), np.int64)
    for axis, total in enumerate(sums):
        table[..., axis] = evaluate(to_expr(total), axis_digits, exact=True)
    found = fit(table, shape)
    # digits that overhang the nest would make a layout of more iterations than it has
    return found if found is not None and found.in_shape == tuple(extents) else None


def _axis_digits(nest: DigitMap, axis: int) -> list[tuple[int, int]]:
    """(stride, size) of the digits that map to a dimension, least significant first."""
    return sorted(
        (mode.stride[axis], mode.size) for modes in nest.inputs for mode in modes if mode.size > 1 and mode.stride[axis]
    )


def _free_digits(nest: DigitMap, axis: int, extent: int) -> list[Mode] | None:
    """The digits of a dimension that no nest variable maps to; None if those that do overlap."""
    free, expected = [], 1
    rank = len(nest.out_shape)
    for stride, size in _axis_digits(nest, axis):
        if stride % expected:
            return None
        if stride > expected:
            free.append(Mode(stride // expected, unit(rank, axis, expected)))
        expected = stride * size
    if expected < extent:
        free.append(Mode(-(-extent // expected), unit(rank, axis, expected)))
    return free


def _changes_free_digits_only(rest: Sum, nest: DigitMap, axis: int, analysis: Analysis) -> bool:
    """Whether the rest of a subscript only changes digits that no nest variable maps to."""
    axis_digits = _axis_digits(nest, axis)
    if not axis_digits:
        return True
    top = axis_digits[-1][0] * axis_digits[-1][1]
    low = analysis.remainder(rest, top)
    if low.terms:  # it may change digits below the nest's first one
        return analysis.sum_bounds(low).within(Interval(0, axis_digits[0][0] - 1))
    return all(low.constant // stride % size == 0 for stride, size in axis_digits)
