"""Vectorization width of an access: how many contiguous elements one aligned, in-bounds access may have.

Takes an access in the variable of a loop over contiguous elements, gives a number of lanes. Invariant: a vector of that
many elements is proven to be aligned to its size, contiguous in memory, and in bounds as a whole or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from tilelang.analysis.bounds_checks import bounds_checks
from tilelang.analysis.strides import coefficient
from tilelang.arith.domain import Domain
from tilelang.arith.exact import exact
from tilelang.arith.interval import analysis_of
from tilelang.arith.prove import decide
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, Var, const, int_const
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import substitute
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES, contiguous_elements
from tilelang.records import record

MEMORY = (Scope.GLOBAL, Scope.SHARED)
"""Scopes with vector accesses."""

ZERO = const(0, INT32)


@record(slots=True)
class Facts:
    """Facts of a launch.

    Attributes:
        layouts: Layouts of shared buffers.
        nonzero_safe: Buffers whose safe value is not 0.
    """

    layouts: Mapping[Buffer, Layout] = field(default_factory=dict)
    nonzero_safe: frozenset[Buffer] = frozenset()


def nonzero_safe(launch: Launch) -> frozenset[Buffer]:
    """The global buffers of which loads out of bounds may not be 0."""
    values = launch.hints.safe_values
    return frozenset(b.storage for b, value in values if not isinstance(value, Const) or value.value)


def vector_width(buffer: Buffer, indices: tuple[Expr, ...], var: Var, trips: int, domain: Domain, facts: Facts) -> int:
    """The widest legal vector access in lanes: a power of two that divides the trip count, 1 for scalar access.

    Args:
        buffer: The accessed buffer.
        indices: The subscripts, in terms of `var`.
        var: The loop variable, from 0.
        trips: The trip count.
        domain: Facts that hold around the loop.
        facts: Facts of the launch.
    """
    if buffer.scope not in (*MEMORY, Scope.LOCAL) or buffer.dtype.lanes > 1 or not indices:
        return 1
    steps = [coefficient(index, var) for index in indices]
    if steps[-1] != 1 or any(step != 0 for step in steps[:-1]):
        return 1
    most = min(MAX_VECTOR_BYTES, buffer.storage.alignment_bytes) if buffer.scope is Scope.GLOBAL else MAX_VECTOR_BYTES
    lanes = min(trips & -trips, most // buffer.dtype.storage_bytes)
    start = tuple(exact(substitute(index, {var: ZERO})) for index in indices)
    while lanes > 1 and not _fits(buffer, start, lanes, trips, domain, facts):
        lanes //= 2
    return max(lanes, 1)


def _fits(buffer: Buffer, start: tuple[Expr, ...], lanes: int, trips: int, domain: Domain, facts: Facts) -> bool:
    layout = facts.layouts.get(buffer)
    if layout is not None:
        if contiguous_elements(layout) % lanes or _size(layout) % lanes:
            return False
        return _divides(lanes, start[-1], domain)
    if not _is_aligned(buffer, start, lanes, domain):
        return False
    if buffer.scope is not Scope.GLOBAL:
        return True
    if buffer.storage in facts.nonzero_safe:  # an out-of-bounds vector load gives 0
        reach = (*(const(1, INT32) for _ in start[1:]), const(trips, INT32))
        return bounds_checks(buffer, start, domain, reach) == []
    end = buffer.shape[-1]
    if decide(start[-1] + (trips - 1) < end, domain) and decide(start[-1] >= 0, domain):
        return True
    return _divides(lanes, start[-1], domain) and _divides(lanes, end, domain)  # in bounds as a whole or not at all


def _size(layout: Layout) -> int:
    return math.prod(layout.output_shape)


def _divides(lanes: int, value: Expr, domain: Domain) -> bool:
    total = analysis_of(domain).sum(value)
    if total.constant % lanes == 0 and total.divisor % lanes == 0:
        return True
    return value.is_index and decide(value % lanes == 0, domain) is True


def _is_aligned(buffer: Buffer, start: tuple[Expr, ...], lanes: int, domain: Domain) -> bool:
    """Whether an element's row-major offset is a multiple of `lanes`, and the elements after it are contiguous.

    Each index is examined with its stride: a loaded index may have any value if its stride is a multiple of `lanes`.
    The offset as one expression in the dtype of data would prove nothing, because it might wrap.
    """
    strides = buffer.strides
    if strides is not None and int_const(strides[-1]) != 1:
        return False
    divisor = 1  # of the stride of the axis, capped at `lanes`
    for axis in reversed(range(len(start))):
        if strides is not None:
            divisor = _power(lanes, strides[axis], domain)
        if not _divides(lanes // divisor, start[axis], domain):
            return False
        if strides is None:
            divisor *= _power(lanes // divisor, buffer.shape[axis], domain)
    return True


def _power(most: int, value: Expr, domain: Domain) -> int:
    """The largest power of two, up to the power of two `most`, that divides a value."""
    while most > 1 and not _divides(most, value, domain):
        most //= 2
    return most
