"""Splits offsets in LDS into a part of each thread, which a loop does not change, and one that is the same for all.

    for k:  x = A[(row * 64 + (row & 7) * 8 ^ s * 16) + v * 1024]
    =>  at = row * 64 + (row & 7) * 8;  for k:  x = A[(at ^ s * 16) + v * 1024]

Takes a loop, gives for each access of shared memory in it the part of the thread, and what XOR and addition make of it.
Invariant: together they are the offset; the part of the thread has no variable but the thread. It is computed once, in
bytes, so that no access has to scale it, and where registers are scarce an iteration computes the others from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilelang.arith.affine import Linearizer, Sum, to_expr
from tilelang.arith.domain import Domain
from tilelang.arith.simplify import simplify
from tilelang.codegen.pointer_increments import AddressKey, address_key
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Binary, Expr, Var, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import For, Store
from tilelang.ir.visit import expressions, loads_of, variables_of, walk
from tilelang.records import record

_BYTE_BITS = 8


@record
class LdsOffset:
    """An offset as `(own ^ flips) + steps`, in bytes.

    Attributes:
        own: The part of the thread.
        flips: What is the same for all threads, for XOR; 0 if nothing.
        steps: What is the same for all threads, to be added.
    """

    own: Expr
    flips: Expr
    steps: Expr


class LdsOffsets:
    """Splits offsets in the program of a thread.

    Args:
        thread: The number of the thread.
        by_thread: Puts the definitions of variables that depend on the thread into an expression.
        domain: What is known about variables.
    """

    def __init__(self, thread: Var, by_thread: Callable[[Expr], Expr], domain: Domain) -> None:
        self._thread, self._by_thread, self._domain = thread, by_thread, domain

    def of(self, loop: For) -> dict[AddressKey, LdsOffset]:
        """The offsets of loads and stores in a loop that can be split, in program order."""
        found: dict[AddressKey, LdsOffset] = {}
        for buffer, indices in _accesses(loop):
            key = address_key(Region(buffer, indices, ()))
            if key not in found and len(indices) == 1 and buffer.dtype.bits >= _BYTE_BITS:
                split = self._split(indices[0], buffer.dtype.storage_bytes)
                if split is not None:
                    found[key] = split
        return found

    def _split(self, index: Expr, item_bytes: int) -> LdsOffset | None:
        own, steps = self._parts(index)
        flips: Expr = const(0, INT32)
        match own:
            case Binary(op=BinaryOp.BITXOR, a=a, b=b) if not self._varies(b):
                own, flips = a, b
        own = simplify(self._by_thread(own), self._domain)
        if variables_of(own) != {self._thread} or loads_of(own):
            return None
        return LdsOffset(*(to_expr(Linearizer().sum(part).times(item_bytes)) for part in (own, flips, steps)))

    def _parts(self, index: Expr) -> tuple[Expr, Expr]:
        """The terms of a sum that depend on the thread, and the others with the constant."""
        linear = Linearizer().sum(index)
        own = {term: count for term, count in linear.terms.items() if any(self._varies(key.expr) for key in term)}
        rest = {term: count for term, count in linear.terms.items() if term not in own}
        return to_expr(Sum(own, 0)), to_expr(Sum(rest, linear.constant))

    def _varies(self, expr: Expr) -> bool:
        return self._thread in variables_of(self._by_thread(expr))


def _accesses(loop: For) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    for stmt in walk(loop):
        for expr in expressions(stmt):
            for load in loads_of(expr):
                if load.buffer.scope is Scope.SHARED:
                    yield load.buffer, load.indices
        if isinstance(stmt, Store) and stmt.buffer.scope is Scope.SHARED:
            yield stmt.buffer, stmt.indices
