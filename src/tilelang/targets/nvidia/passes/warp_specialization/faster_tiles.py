"""Tells where attention would be faster in tiles for three consumer warpgroups, of which most steps are speculative.

Takes a loop whose two warpgroups would speculate if they were three; gives a note for `kernel.explain()`, if the model
of `performance/chain.py` predicts a clear gain.
"""

from __future__ import annotations

import math

from tilelang.errors import Note
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import For, Launch
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.performance.chain import softmax_instructions, step_cycles, thread_cycles
from tilelang.targets.machine import Machine, Rates
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.passes.warp_specialization.speculative_softmax import (
    MIN_SPECULATING_WARPGROUPS,
    RepeatableStep,
)
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS

_KEYS = (128, 96, 64)  # of a step
_HELD = 256  # columns of float32 for which these have registers: of scores, probabilities in 16 bits and output
_CLEARLY_FASTER = 0.95  # of a time, and where masks take time, too, which are not counted:
_DESPITE_MASKS = 0.9
_MANY = 1 << 10  # blocks along a dimension of the grid that is not known


def faster_tiles(
    step: RepeatableStep, loop: For, launch: Launch, warpgroups: int, machine: Machine
) -> Note | None:
    """The note on tiles that are faster by estimate; None without any.

    Args:
        step: The step of the loop, which could be speculative.
        loop: The loop.
        launch: Its launch.
        warpgroups: How many consumer warpgroups it has.
        machine: What runs it.
    """
    gemms = [stmt for stmt in walk(loop.body) if isinstance(stmt, Gemm)]
    sizes = [tuple(int_const(size) or 0 for size in gemm.sizes) for gemm in gemms]
    rows, keys, _ = (int_const(size) or 0 for size in step.gemm.sizes)
    width = max(n for m, n, k in sizes if k == keys)
    wider = next((each for each in _KEYS if 1.5 * each + width <= _HELD), None)
    if machine.rates is None or not machine.multiprocessors or wider is None or rows != warpgroups * ROWS:
        return None
    bits = max(8, min(gemm.operands[0].bits for gemm in gemms))
    flop = sum(2 * math.prod(size) for size in sizes) * bits / 16 / (rows * keys)  # of a score
    grid, more = [int_const(extent) or _MANY for extent in launch.grid], MIN_SPECULATING_WARPGROUPS * ROWS
    count, longest = math.prod(grid), max(grid)
    fewer = count // longest * -(-longest * rows // more)  # that dimension divides rows, most likely
    now = _seconds(flop, count, rows, keys, warpgroups, machine, machine.rates, searches=True)
    then = _seconds(flop, fewer, more, wider, MIN_SPECULATING_WARPGROUPS, machine, machine.rates, searches=False)
    if then > now * (_DESPITE_MASKS if step.has_masks else _CLEARLY_FASTER):
        return None
    threads = MIN_SPECULATING_WARPGROUPS * WARPGROUP_THREADS
    return Note(
        f"T.online_softmax looks for the largest scores in all iterations: with tiles of {more} rows and {wider} keys, "
        f"and {threads} threads, it does in few, which takes {1 - then / now:.0%} less time by estimate",
        step.loc,
    )


def _seconds(
    flop: float, count: int, rows: int, keys: int, warpgroups: int, machine: Machine, rates: Rates, *, searches: bool
) -> float:
    """Seconds for each key, of `count` tiles of so many rows."""
    threads = thread_cycles(rows * keys, *softmax_instructions(searches=searches), rates)
    step = step_cycles(flop * rows * keys, threads, warpgroups, rates)
    return -(-count // machine.multiprocessors) * step / keys / rates.clock
