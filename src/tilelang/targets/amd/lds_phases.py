"""The phases in which LDS serves the lanes of a wave, for bank conflicts.

Gives the rows of machines' records. Invariant: accesses without a row (those of 4 bytes and less, and those that nobody
has measured) are served in the order of lanes, as many at once as access one word of every bank.

Source: ROCm/composable_kernel, documentation, "ck_tile: hardware: LDS bank conflicts" (gfx942);
HazyResearch/HipKittens, analysis/paper_experiments/phases (gfx950, measured). What neither says of gfx90a is taken to
be as on gfx942, and the 16-byte store of gfx950 as on gfx942.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.targets.machine import SharedPhases


def _wave(*half: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """The phases of the lower 32 lanes, and the same for the upper ones."""
    lower = tuple(tuple(lanes) for lanes in half)
    return lower + tuple(tuple(lane + 32 for lane in lanes) for lanes in lower)


def _in_order(together: int) -> tuple[tuple[int, ...], ...]:
    """Phases of consecutive lanes."""
    return tuple(tuple(range(first, first + together)) for first in range(0, 64, together))


_EIGHT = _wave(
    (*range(4), *range(20, 24)), (*range(4, 8), *range(16, 20)),
    (*range(8, 12), *range(28, 32)), (*range(12, 16), *range(24, 28)),
)  # fmt: skip
_SIXTEEN = _wave((*range(4), *range(12, 16), *range(20, 28)), (*range(4, 12), *range(16, 20), *range(28, 32)))

CDNA3 = (SharedPhases("load", 16, _EIGHT), SharedPhases("store", 16, _in_order(8)))
"""gfx90a and gfx942, of 32 banks."""

CDNA4 = (
    SharedPhases("load", 8, _in_order(32)),
    SharedPhases("load", 16, _SIXTEEN),
    SharedPhases("store", 8, _in_order(16), banks=32),
    SharedPhases("store", 16, _in_order(8), banks=32),
)
"""gfx950, of 64 banks, half of which serve stores of 8 and 16 bytes."""
