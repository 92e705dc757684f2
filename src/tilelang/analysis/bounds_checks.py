"""Bounds checks of an access, without those that are proven."""

from __future__ import annotations

from tilelang.arith.domain import Domain
from tilelang.arith.exact import exact
from tilelang.arith.prove import decide
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, const, int_const


def bounds_checks(
    buffer: Buffer, indices: tuple[Expr, ...], domain: Domain, reach: tuple[Expr, ...] = ()
) -> list[Expr] | None:
    """The bounds checks that an access needs; None if it is certainly out of bounds.

    Args:
        buffer: The accessed buffer.
        indices: The first element.
        domain: Facts that hold at the access.
        reach: Number of elements accessed per dimension; 1 if absent.
    """
    tests = []
    lengths = reach or (const(1, INT32),) * len(indices)
    for index, extent, length in zip(map(exact, indices), buffer.shape, lengths, strict=True):
        last = index if int_const(length) == 1 else index + (length - 1)
        for test in (index >= 0, last < extent):
            truth = decide(test, domain)
            if truth is False:
                return None
            if truth is None:
                tests.append(test)
    return tests
