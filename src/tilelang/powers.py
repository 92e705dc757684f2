"""Powers of two, on plain ints."""

from __future__ import annotations


def is_power_of_two(n: int) -> bool:
    """Whether n is 1, 2, 4, ..."""
    return n > 0 and n & (n - 1) == 0


def next_power_of_two(n: int) -> int:
    """The smallest power of two that is not below n; 1 for anything up to 1."""
    return 1 << max(0, n - 1).bit_length()
