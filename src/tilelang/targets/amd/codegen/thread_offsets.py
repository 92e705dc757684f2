"""Splits addresses of global loads in loops, also of those to LDS, into a uniform part and an offset of each thread.

    for k:  x = A[by * 128 + (thread >> 3) + v * 32, k * 64]
    =>  r = &A[by * 128, 0], t = (thread >> 3) * stride;  for k, t += 64:  x = *(r + t + v * 32 * stride)

Takes a loop, gives for each such address the uniform part in the first iteration, its increments, and the thread's
offset. Invariant: their sum is the address; the offset, with the strides of unrolled loops, and with what is loaded, is
in [0, 2**31). A buffer load adds a resource in scalar registers, a vector offset of 32 bits and a scalar offset by
itself: an iteration increments one register for all loads of a tile, instead of a 64-bit vector address for each.
Loads to LDS whose addresses are no multiples of a step, since the tile is swizzled, have one offset each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Set

from tilelang.analysis.strides import distance
from tilelang.arith.affine import Linearizer, Sum, to_expr
from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.codegen.pointer_increments import AddressKey, PointerIncrement, address_increment, address_key, changed_in
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.stmt import For, ForKind, Stmt
from tilelang.ir.visit import expressions, loads_of, sub_statements, substitute, variables_of
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES
from tilelang.records import record
from tilelang.targets.amd.isa.buffer_load import MAX_BUFFER_BYTES
from tilelang.targets.amd.isa.direct_to_lds import directly_loaded

_BYTE_BITS = 8


@record
class ThreadOffset:
    """A split address in a loop.

    Attributes:
        pointer: The uniform part.
        indices: The offsets of the thread, added to the indices of the pointer.
        each: The unrolled loop whose iterations have offsets of their own, with its variable in `indices`.
        holds_increments: Whether the offset stays in [0, 2**31) if the loop increments it instead of the pointer.
    """

    pointer: PointerIncrement
    indices: tuple[Expr, ...]
    each: For | None = None
    holds_increments: bool = False


def thread_offsets(loop: For, thread: Var, domain: Domain) -> dict[AddressKey, ThreadOffset]:
    """The addresses of global loads in a loop that can be split, in program order."""
    found: dict[AddressKey, ThreadOffset] = {}
    if loop.step <= 0:
        return found
    changing = changed_in(loop)
    for region, unrolled, directly in _loads(loop.body, ()):
        buffer, key = region.buffer, address_key(region)
        if key in found or buffer.dtype.bits < _BYTE_BITS:
            continue
        variables = tuple(each.var for each in unrolled)
        increment = address_increment(region, loop, variables, changing)
        split = None if increment is None else _split(increment, {thread})
        if split is None and directly and unrolled:
            each = unrolled[-1]
            increment = address_increment(region, loop, variables[:-1], changing - {each.var})
            split = None if increment is None else _split(increment, {thread, each.var}, each)
        if split is None:
            continue
        largest = _max_offset(buffer, split, unrolled, domain)
        if largest < MAX_BUFFER_BYTES:
            holds = largest + _max_increment(buffer, split, loop) < MAX_BUFFER_BYTES
            found[key] = dataclasses.replace(split, holds_increments=holds)
    return found


def _loads(stmt: Stmt, unrolled: tuple[For, ...]) -> Iterator[tuple[Region, tuple[For, ...], bool]]:
    """The loads from global memory, with the enclosing unrolled loops, and whether they go to LDS."""
    for expr in expressions(stmt):
        for load in loads_of(expr):
            if load.buffer.scope is Scope.GLOBAL:
                yield Region(load.buffer, load.indices, ()), unrolled, False
    source = directly_loaded(stmt)
    if source is not None:
        yield source, unrolled, True
    if isinstance(stmt, For) and stmt.kind is ForKind.UNROLLED:
        unrolled = (*unrolled, stmt)
    for child in sub_statements(stmt):
        yield from _loads(child, unrolled)


def _split(address: PointerIncrement, variables: Set[Var], each: For | None = None) -> ThreadOffset | None:
    """An address split by dependence on variables; None if no term depends on them, or one depends on others too."""
    shared, own = zip(*(_split_sum(Linearizer().sum(index), variables) for index in address.start), strict=True)
    if {var for index in own for var in variables_of(index)} != variables:
        return None
    return ThreadOffset(PointerIncrement(shared, address.steps, address.unrolled_steps), own, each)


def _split_sum(linear: Sum, variables: Set[Var]) -> tuple[Expr, Expr]:
    """The terms of a sum that depend on none of some variables, with the constant, and the others."""
    own = {
        term: count
        for term, count in linear.terms.items()
        if not all(variables.isdisjoint(variables_of(key.expr)) for key in term)
    }
    rest = {term: count for term, count in linear.terms.items() if term not in own}
    return to_expr(Sum(rest, linear.constant)), to_expr(Sum(own, 0))


def _max_increment(buffer: Buffer, address: ThreadOffset, loop: For) -> int:
    """The bytes by which all iterations together increment an address; `MAX_BUFFER_BYTES` if that has no bound."""
    start, stop = int_const(loop.start), int_const(loop.stop)
    step = distance(buffer, address.pointer.steps)
    if start is None or stop is None or step is None or step < 0:
        return MAX_BUFFER_BYTES
    return len(range(start, stop, loop.step)) * step * buffer.dtype.storage_bytes


def _max_offset(buffer: Buffer, address: ThreadOffset, unrolled: tuple[For, ...], domain: Domain) -> int:
    """The end of a load at the largest offset; `MAX_BUFFER_BYTES` if one may be negative or has no bound."""
    total = 0
    last = {loop.var: (int_const(loop.stop) or MAX_BUFFER_BYTES) - 1 for loop in unrolled}
    if address.each is not None:
        domain = domain.with_range(address.each.var, 0, last[address.each.var])
    for axis, index in enumerate(address.indices):
        stride = distance(buffer, tuple(int(axis == other) for other in range(len(address.indices))))
        span = bounds(index, domain)
        if int_const(index) == 0:
            continue
        if stride is None or stride < 0 or span.low is None or span.low < 0 or span.high is None:
            return MAX_BUFFER_BYTES
        total += stride * span.high
    for var, steps in address.pointer.unrolled_steps.items():
        step = distance(buffer, steps)
        if step is None or step < 0:
            return MAX_BUFFER_BYTES
        total += step * last[var]
    return total * buffer.dtype.storage_bytes + MAX_VECTOR_BYTES


def least_offset(buffer: Buffer, address: ThreadOffset, iteration: int, domain: Domain) -> int:
    """The smallest offset in bytes in an iteration of `address.each`, at least."""
    total = 0
    for axis, index in enumerate(address.indices):
        at = index if address.each is None else substitute(index, {address.each.var: const(iteration, INT32)})
        stride = distance(buffer, tuple(int(axis == other) for other in range(len(address.indices))))
        total += (stride or 0) * (bounds(at, domain).low or 0)
    return total * buffer.dtype.storage_bytes
