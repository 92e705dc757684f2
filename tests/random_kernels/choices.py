"""The source of choices of random programs, and their reduction to the simplest program that still fails."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from random_kernels.model import Choices


class Seeded(Choices):
    """Choices of a random generator.

    Attributes:
        made: The choices so far.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.made: list[int] = []

    def below(self, n: int) -> int:
        """A random number."""
        self.made.append(self._random.randrange(n))
        return self.made[-1]


class Recorded(Choices):
    """Choices made before, as far as they go; then the plainest."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._next = iter(choices)

    def below(self, n: int) -> int:
        """The next recorded number."""
        return min(next(self._next, 0), n - 1)


def plainest(choices: Sequence[int], fails: Callable[[Sequence[int]], bool], seconds: float) -> list[int]:
    """Fewer and smaller choices that still fail, by leaving out and zeroing ever smaller runs of them."""
    best, size, end = list(choices), max(1, len(choices) // 2), time.monotonic() + seconds
    while size:
        place = 0
        while place < len(best):
            head, tail = best[:place], best[place + size :]
            for candidate in (head + tail, head + [0] * len(best[place : place + size]) + tail):
                if time.monotonic() > end:
                    return best
                if candidate != best and fails(candidate):
                    best = candidate
                    break
            else:
                place += size
        size //= 2
    return best
