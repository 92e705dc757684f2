"""Addresses of global loads in loops, as a pointer that all threads share and an offset of each thread.

    for k:  x = A[by * 128 + (thread >> 3) + v * 32, k * 64]
    =>  p = &A[by * 128, 0], t = (thread >> 3) * stride;  for k, p += 64:  x = *(p + (t + v * 32 * stride))

Takes a loop, gives for each such address the pointer in its first iteration, its increments, and what a thread adds.
Invariant: their sum is the address; the offset is not negative, and fits into 32 bits, with what unrolled loops add.
Machines add a scalar pointer and a vector offset of 32 bits in the load itself: an iteration then increments scalars,
where vectors of 64 bits would be added for each load.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.strides import distance
from tilelang.arith.affine import Linearizer, Sum, to_expr
from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.codegen.pointer_increments import AddressKey, PointerIncrement, address_increment, address_key, changed_in
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.stmt import For, ForKind, Stmt
from tilelang.ir.visit import expressions, loads_of, sub_statements, variables_of
from tilelang.records import record

_BYTE_BITS = 8
_MAX_BYTES = 2**31  # of an offset


@record
class ThreadOffset:
    """An address in a loop.

    Attributes:
        pointer: What all threads share.
        indices: What the thread adds to the indices of the pointer.
    """

    pointer: PointerIncrement
    indices: tuple[Expr, ...]


def thread_offsets(loop: For, thread: Var, domain: Domain) -> dict[AddressKey, ThreadOffset]:
    """The addresses of global loads in a loop that can be divided, in program order."""
    found: dict[AddressKey, ThreadOffset] = {}
    if loop.step <= 0:
        return found
    changing = changed_in(loop)
    for load, unrolled in _loads(loop.body, ()):
        region = Region(load.buffer, load.indices, ())
        key = address_key(region)
        if key in found or load.buffer.dtype.bits < _BYTE_BITS:
            continue
        increment = address_increment(region, loop, tuple(unrolled), changing)
        divided = None if increment is None else _divided(increment, thread)
        if divided is not None and _reach(load.buffer, divided, dict(unrolled), domain) < _MAX_BYTES:
            found[key] = divided
    return found


def _loads(stmt: Stmt, unrolled: tuple[tuple[Var, int], ...]) -> Iterator[tuple[Load, dict[Var, int]]]:
    """The loads from global memory, with the largest values of the variables of enclosing unrolled loops."""
    for expr in expressions(stmt):
        for load in loads_of(expr):
            if load.buffer.scope is Scope.GLOBAL:
                yield load, dict(unrolled)
    if isinstance(stmt, For) and stmt.kind is ForKind.UNROLLED:
        unrolled = (*unrolled, (stmt.var, (int_const(stmt.stop) or _MAX_BYTES) - 1))
    for child in sub_statements(stmt):
        yield from _loads(child, unrolled)


def _divided(address: PointerIncrement, thread: Var) -> ThreadOffset | None:
    """An address without the terms that depend on the thread, and those; None if they depend on more, or on nothing."""
    shared, own = zip(*(_parts(Linearizer().sum(index), thread) for index in address.start), strict=True)
    if {var for index in own for var in variables_of(index)} != {thread}:
        return None
    return ThreadOffset(PointerIncrement(shared, address.steps, address.unrolled_steps), own)


def _parts(linear: Sum, thread: Var) -> tuple[Expr, Expr]:
    """The terms of a sum without a variable, with the constant, and those with it."""
    own = {term: count for term, count in linear.terms.items() if any(thread in variables_of(key.expr) for key in term)}
    rest = {term: count for term, count in linear.terms.items() if term not in own}
    return to_expr(Sum(rest, linear.constant)), to_expr(Sum(own, 0))


def _reach(buffer: Buffer, address: ThreadOffset, unrolled: dict[Var, int], domain: Domain) -> int:
    """The largest offset in bytes; too large a number if one may be negative, or is not known."""
    total = 0
    for axis, index in enumerate(address.indices):
        stride = distance(buffer, tuple(int(axis == other) for other in range(len(address.indices))))
        span = bounds(index, domain)
        if int_const(index) == 0:
            continue
        if stride is None or stride < 0 or span.low is None or span.low < 0 or span.high is None:
            return _MAX_BYTES
        total += stride * span.high
    for var, steps in address.pointer.unrolled_steps.items():
        step = distance(buffer, steps)
        if step is None or step < 0:
            return _MAX_BYTES
        total += step * unrolled[var]
    return total * buffer.dtype.storage_bytes
