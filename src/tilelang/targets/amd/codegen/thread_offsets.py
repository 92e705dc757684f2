"""Splits addresses of global loads in loops, also of those to LDS, into a uniform part and an offset of each thread.

    for k:  x = A[by * 128 + (thread >> 3) + v * 32, k * 64]
    =>  r = &A[by * 128, 0], t = (thread >> 3) * stride;  for k, t += 64:  x = *(r + t + v * 32 * stride)

Takes a loop, gives for each such address the uniform part in the first iteration, its increments, and the thread's
offset. Invariant: their sum is the address; the offset, with the strides of unrolled loops, and with what is loaded, is
in [0, 2**31). A buffer load adds a resource in scalar registers, a vector offset of 32 bits and a scalar offset by
itself: an iteration increments one register for all loads of a tile, instead of a 64-bit vector address for each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilelang.analysis.strides import distance
from tilelang.arith.affine import Linearizer, Sum, to_expr
from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.codegen.pointer_increments import AddressKey, PointerIncrement, address_increment, address_key, changed_in
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.stmt import For, ForKind, Stmt
from tilelang.ir.visit import expressions, loads_of, sub_statements, variables_of
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES
from tilelang.records import record
from tilelang.targets.amd.isa.buffer_load import MAX_BUFFER_BYTES
from tilelang.targets.amd.isa.direct_to_lds import unconditional_source

_BYTE_BITS = 8


@record
class ThreadOffset:
    """A split address in a loop.

    Attributes:
        pointer: The uniform part.
        indices: The offsets of the thread, added to the indices of the pointer.
        holds_increments: Whether the offset stays in [0, 2**31) if the loop increments it instead of the pointer.
    """

    pointer: PointerIncrement
    indices: tuple[Expr, ...]
    holds_increments: bool = False


def thread_offsets(loop: For, thread: Var, domain: Domain) -> dict[AddressKey, ThreadOffset]:
    """The addresses of global loads in a loop that can be split, in program order."""
    found: dict[AddressKey, ThreadOffset] = {}
    if loop.step <= 0:
        return found
    changing = changed_in(loop)
    for buffer, indices, unrolled in _loads(loop.body, ()):
        region = Region(buffer, indices, ())
        key = address_key(region)
        if key in found or buffer.dtype.bits < _BYTE_BITS:
            continue
        increment = address_increment(region, loop, tuple(unrolled), changing)
        split = None if increment is None else _split(increment, thread)
        if split is None:
            continue
        largest = _max_offset(buffer, split, dict(unrolled), domain)
        if largest < MAX_BUFFER_BYTES:
            holds = largest + _max_increment(buffer, split, loop) < MAX_BUFFER_BYTES
            found[key] = dataclasses.replace(split, holds_increments=holds)
    return found


def _loads(
    stmt: Stmt, unrolled: tuple[tuple[Var, int], ...]
) -> Iterator[tuple[Buffer, tuple[Expr, ...], dict[Var, int]]]:
    """The loads from global memory, with the largest values of the variables of enclosing unrolled loops."""
    for expr in expressions(stmt):
        for load in loads_of(expr):
            if load.buffer.scope is Scope.GLOBAL:
                yield load.buffer, load.indices, dict(unrolled)
    source = unconditional_source(stmt)
    if source is not None:
        yield source.buffer, source.start, dict(unrolled)
    if isinstance(stmt, For) and stmt.kind is ForKind.UNROLLED:
        unrolled = (*unrolled, (stmt.var, (int_const(stmt.stop) or MAX_BUFFER_BYTES) - 1))
    for child in sub_statements(stmt):
        yield from _loads(child, unrolled)


def _split(address: PointerIncrement, thread: Var) -> ThreadOffset | None:
    """An address split by dependence on the thread; None if no term, or a term with other variables, depends on it."""
    shared, own = zip(*(_split_sum(Linearizer().sum(index), thread) for index in address.start), strict=True)
    if {var for index in own for var in variables_of(index)} != {thread}:
        return None
    return ThreadOffset(PointerIncrement(shared, address.steps, address.unrolled_steps), own)


def _split_sum(linear: Sum, thread: Var) -> tuple[Expr, Expr]:
    """The terms of a sum that are uniform, with the constant, and those that depend on the thread."""
    own = {term: count for term, count in linear.terms.items() if any(thread in variables_of(key.expr) for key in term)}
    rest = {term: count for term, count in linear.terms.items() if term not in own}
    return to_expr(Sum(rest, linear.constant)), to_expr(Sum(own, 0))


def _max_increment(buffer: Buffer, address: ThreadOffset, loop: For) -> int:
    """The bytes by which all iterations together increment an address; `MAX_BUFFER_BYTES` if that has no bound."""
    start, stop = int_const(loop.start), int_const(loop.stop)
    step = distance(buffer, address.pointer.steps)
    if start is None or stop is None or step is None or step < 0:
        return MAX_BUFFER_BYTES
    return len(range(start, stop, loop.step)) * step * buffer.dtype.storage_bytes


def _max_offset(buffer: Buffer, address: ThreadOffset, unrolled: dict[Var, int], domain: Domain) -> int:
    """The end of a load at the largest offset; `MAX_BUFFER_BYTES` if one may be negative or has no bound."""
    total = 0
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
        total += step * unrolled[var]
    return total * buffer.dtype.storage_bytes + MAX_VECTOR_BYTES
