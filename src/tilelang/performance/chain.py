"""The time of a step of several matrix products in turn, such as that of attention, from the sizes of its tiles alone.

Products take most of it. Threads, which compute on their results, add a share of their own time, which is larger where
few warp groups take turns.
"""

from __future__ import annotations

from tilelang.targets.machine import Rates

# Fitted to 110 kernels of attention of 64 to 256 dimensions on an H200
_PRODUCTS = 0.86  # of the time of products by themselves
_ORDINARY, _SPECIAL = 0.6, 0.45  # of the time of instructions by themselves, with three warp groups or more
_FEW_WARP_GROUPS = {1: 2.4, 2: 1.25}  # by how much longer threads take with fewer
_STEP = 150  # cycles
_EXPONENTIAL, _SEARCH = 2.5, 2.0  # ordinary instructions of a softmax, and of its search for the largest score


def step_cycles(flop: float, threads: float, warp_groups: int, rates: Rates) -> float:
    """The cycles of a step on a multiprocessor that has no more than it.

    Args:
        flop: Operations of the products, of 16-bit operands.
        threads: Cycles of what threads compute, as `thread_cycles` gives them.
        warp_groups: How many take turns.
        rates: Those of the machine.
    """
    products = flop / (rates.matrix * rates.matrix_by_group)
    return _STEP + _PRODUCTS * products + by_few_warp_groups(threads, warp_groups)


def thread_cycles(elements: int, ordinary: float, special: float, rates: Rates) -> float:
    """What threads add to a step that compute elements by so many instructions, where enough warp groups take turns."""
    return elements * (_ORDINARY * ordinary / rates.lanes + _SPECIAL * special / rates.special)


def by_few_warp_groups(cycles: float, warp_groups: int) -> float:
    """What threads add where so many warp groups take turns."""
    return cycles * _FEW_WARP_GROUPS.get(warp_groups, 1.0)


def softmax_instructions(*, searches: bool) -> tuple[float, float]:
    """Ordinary instructions and special functions of an element, with or without a search for the largest score."""
    return _EXPONENTIAL + (_SEARCH if searches else 0), 1.0
