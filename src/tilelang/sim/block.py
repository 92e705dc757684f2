"""The state that the warps of a running block share, and that the blocks of a launch share.

Takes the memory of the launch. Invariant: blocks share state only through their `Grid` or `Cluster`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilelang.ir.buffer import Buffer, Scope
from tilelang.records import record
from tilelang.sim.async_transfers import PendingTransfers
from tilelang.sim.barriers import Barriers
from tilelang.sim.clocks import Clocks
from tilelang.sim.clusters import Cluster
from tilelang.sim.counters import Counters
from tilelang.sim.device_memory import Window
from tilelang.sim.early_launches import Waits
from tilelang.sim.proxies import Proxies
from tilelang.sim.races import RaceDetector
from tilelang.targets.machine import Machine


@record(frozen=False)
class Grid:
    """State that the blocks of a launch share.

    Attributes:
        proxies: The fences of their threads.
        races: What they did to global memory.
        waits: Their waits for the launches in front; None if these have ended before they begin.
        syncs: Grid barriers that are complete.
    """

    proxies: Proxies
    races: RaceDetector
    waits: Waits | None = None
    syncs: int = 0


class Block:
    """State that the warps of a running block share.

    Args:
        index: The block in its grid.
        grid: What it shares with the other blocks.
        cluster: What it shares with those that run together with it.
        threads: How many it has.
        machine: What runs it.
        clocks: What orders accesses.
        window: The shared and global memory of a buffer, by slot.
        buffers: All that the program names, by slot.
        lazy: Whether asynchronous work happens as late as its waits allow.
        counters: Where its instructions and accesses are counted, if anywhere.
        printer: Receives what it prints.
        has_bare_barriers: Whether the program has barriers that wait for no memory access.

    Attributes:
        rank: Its number in its cluster.
        lane: The numbers of the lanes of a warp.
        pending_transfers: Asynchronous transfers that are not complete.
    """

    def __init__(
        self,
        index: tuple[int, ...],
        grid: Grid,
        cluster: Cluster,
        threads: int,
        *,
        machine: Machine,
        clocks: Clocks,
        window: Callable[[int], Window],
        buffers: Sequence[Buffer],
        lazy: bool,
        counters: Counters | None,
        printer: Callable[[str], object],
        has_bare_barriers: bool = False,
    ) -> None:
        self.index, self.grid, self.cluster, self.threads = index, grid, cluster, threads
        self.machine, self.clocks, self.window, self.buffers = machine, clocks, window, buffers
        self.lazy, self.counters, self.printer = lazy, counters, printer
        self.has_bare_barriers = has_bare_barriers
        self.pending_transfers = PendingTransfers()
        self.slots = {buffer: slot for slot, buffer in enumerate(buffers)}
        self._states: dict[str, Any] = {}
        starts = range(0, threads, clocks.warp_size)
        self.rank = cluster.enter(self, len(starts))
        first = clocks.of_block(self.rank).start
        numbers = [first + np.arange(start, min(start + clocks.warp_size, threads)) for start in starts]
        self.barriers = Barriers(numbers, clocks)
        self.lane = np.arange(clocks.warp_size)

    @functools.cached_property
    def tiles(self) -> list[tuple[int, int, Buffer]]:
        """The buffers in shared memory: where each begins and ends, in bytes, and the buffer."""
        tiles = [(self.window(slot), b) for slot, b in enumerate(self.buffers) if b.scope is Scope.SHARED]
        return [(window.begin, window.begin + window.size * window.itemsize, buffer) for window, buffer in tiles]

    @property
    def proxies(self) -> Proxies:
        """The fences of its threads."""
        return self.grid.proxies

    def state(self, name: str, make: Callable[[], Any]) -> Any:
        """The state of a family of instructions for the block."""
        if name not in self._states:
            self._states[name] = make()
        return self._states[name]
