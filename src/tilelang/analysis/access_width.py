"""How many neighboring elements one access may take: alignment and bounds of vectors, proven.

Takes an access in the variable of a loop over neighbors, gives a number of lanes. Invariant: a vector of that many
elements begins at a multiple of its size, its elements lie side by side in memory, and it lies within its buffer as a
whole or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from tilelang.analysis.in_range import in_range
from tilelang.analysis.strides import coefficient
from tilelang.arith.domain import Domain
from tilelang.arith.exact import exact
from tilelang.arith.interval import analysis_of
from tilelang.arith.prove import decide
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.visit import substitute
from tilelang.layout.layout import Layout
from tilelang.layout.memory import MAX_VECTOR_BYTES, contiguous_elements
from tilelang.records import record

MEMORY = (Scope.GLOBAL, Scope.SHARED)
"""The scopes that vector accesses serve."""

ZERO = const(0, INT32)


@record(slots=True)
class Facts:
    """What holds in all of a launch: layouts of shared buffers, and buffers whose safe value is not 0."""

    layouts: Mapping[Buffer, Layout] = field(default_factory=dict)
    guarded: frozenset[Buffer] = frozenset()


def width(buffer: Buffer, indices: tuple[Expr, ...], var: Var, trips: int, domain: Domain, facts: Facts) -> int:
    """How many neighbors one access may take: a power of two that divides the trips, 1 if the access stays scalar.

    Args:
        buffer: What is accessed.
        indices: Where, in the loop's variable.
        var: The loop's variable, which runs from 0.
        trips: The loop's iterations.
        domain: What is known around the loop.
        facts: What is known of the launch.
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
    if buffer.storage in facts.guarded:  # a vector outside would be 0
        reach = (*(const(1, INT32) for _ in start[1:]), const(trips, INT32))
        return in_range(buffer, start, domain, reach) == []
    end = buffer.shape[-1]
    if decide(start[-1] + (trips - 1) < end, domain) and decide(start[-1] >= 0, domain):
        return True
    return _divides(lanes, start[-1], domain) and _divides(lanes, end, domain)  # as a whole inside or outside


def _size(layout: Layout) -> int:
    return math.prod(layout.output_shape)


def _divides(lanes: int, value: Expr, domain: Domain) -> bool:
    total = analysis_of(domain).sum(value)
    if total.constant % lanes == 0 and total.divisor % lanes == 0:
        return True
    return value.is_index and decide(value % lanes == 0, domain) is True


def _is_aligned(buffer: Buffer, start: tuple[Expr, ...], lanes: int, domain: Domain) -> bool:
    """Whether an element's row-major offset is a multiple of `lanes`, and its neighbors are neighbors in memory.

    Each index is judged with its stride: an index that comes from memory may be any number if its stride is a
    multiple, and the offset as one expression of the width of data would say nothing, because it might wrap.
    """
    strides = buffer.strides
    if strides is not None and int_const(strides[-1]) != 1:
        return False
    divisor = 1  # of the stride of the axis, as far as it counts
    for axis in reversed(range(len(start))):
        if strides is not None:
            divisor = _power(lanes, strides[axis], domain)
        if not _divides(lanes // divisor, start[axis], domain):
            return False
        if strides is None:
            divisor *= _power(lanes // divisor, buffer.shape[axis], domain)
    return True


def _power(most: int, value: Expr, domain: Domain) -> int:
    """The largest power of two that divides a value, up to `most`, which is one."""
    while most > 1 and not _divides(most, value, domain):
        most //= 2
    return most
