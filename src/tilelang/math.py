"""Arithmetic on tile sizes, on plain ints: `tilelang.math.next_power_of_2`, `tilelang.math.cdiv`."""

from __future__ import annotations

from tilelang.api import public
from tilelang.powers import next_power_of_two

__all__ = ["cdiv", "next_power_of_2"]


@public
def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below `n`; 1 for anything up to 1."""
    return next_power_of_two(n)


@public
def cdiv(a: int, b: int) -> int:
    """`a / b` rounded up: how many tiles of `b` cover `a`."""
    return -(-a // b)
