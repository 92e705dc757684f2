"""How the threads of a block share its work where some bring tiles and others compute: one record, decided once."""

from __future__ import annotations

import math

from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer
from tilelang.ir.launch import WarpSchedule
from tilelang.ir.stmt import Launch
from tilelang.records import record

WARPGROUP_THREADS = 128  # Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"


@record(slots=True)
class Schedule(WarpSchedule):
    """The shape of a kernel of producers and consumers.

    Attributes:
        consumers: Warpgroups that compute.
        stages: Versions of each tile that a pipelined loop brings.
        tile_stages: Versions of what is brought outside of pipelined loops.
        producer_threads: Threads of those that bring; one of them does it.
        registers: Registers of a consumer's thread and of a producer's; None leaves them as the launch gives them.
        persistent: Whether a block works on one tile of the grid after the other.
        panel: (size, order) as in `T.use_swizzle`: how a persistent kernel walks its grid; None row by row.
        staged: In how many parts results leave through tiles of shared memory of their own, while the program goes on;
            0 if they leave straight from registers.
        in_flight: Products that are under way while the next one begins.
        ping_pong: Whether two warpgroups take turns with whole tiles, instead of sharing each one.
        cluster: Blocks of a cluster along the dimensions of the grid.
        shared: Tiles that blocks of a cluster bring together, each a part of it for all, and the dimensions of the grid
            along which they lie.
        split: Blocks of a cluster that share the sums of a tile, neighbors along the first dimension.
    """

    consumers: int
    stages: int
    tile_stages: int = 1
    producer_threads: int = 32
    registers: tuple[int, int] | None = None
    persistent: bool = False
    panel: tuple[int, str] | None = None
    staged: int = 0
    in_flight: int = 0
    ping_pong: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared: tuple[tuple[Buffer, tuple[int, ...]], ...] = ()
    split: int = 1

    @property
    def consumer_threads(self) -> int:
        """Threads that compute; they are the first of the block."""
        return self.consumers * WARPGROUP_THREADS

    @property
    def tile_threads(self) -> int:
        """Threads that compute one tile together."""
        return WARPGROUP_THREADS if self.ping_pong else self.consumer_threads

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster."""
        return math.prod(self.cluster)

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return self.consumer_threads + self.producer_threads

    def __str__(self) -> str:
        """In the words of `kernel.explain()`."""
        parts = [f"{self.consumers} consumer warpgroup{'s' if self.consumers > 1 else ''}"]
        if self.ping_pong:
            parts[0] += " that take turns with tiles"
        parts.append(f"a producer of {self.producer_threads} threads")
        parts.append(f"{self.stages} stage{'s' if self.stages > 1 else ''}")
        if self.tile_stages > 1:
            parts.append(f"{self.tile_stages} versions of what a tile loads once")
        if self.registers is not None:
            parts.append("{} registers for a consumer's thread and {} for a producer's".format(*self.registers))
        if self.persistent:
            order = "row by row" if self.panel is None else f"in panels of {self.panel[0]} ({self.panel[1]})"
            parts.append(f"persistent blocks that walk the grid {order}")
        if self.split > 1:
            parts.append(f"clusters of {self.split} blocks that share the sums of a tile")
        if self.staged:
            times = f" in {self.staged} parts" if self.staged > 1 else ""
            parts.append(f"results leave through shared memory{times} while the program goes on")
        if self.in_flight:
            parts.append(f"{self.in_flight} product in flight")
        if self.cluster != (1, 1, 1):
            parts.append("clusters of {} blocks".format(" x ".join(map(str, self.cluster)).removesuffix(" x 1")))
        for tile, axes in self.shared:
            parts.append(f"'{tile.name}' brought by {math.prod(self.cluster[a] for a in axes)} blocks together")
        return ", ".join(parts)


def schedule_of(launch: Launch) -> Schedule | None:
    """The schedule of a launch; None if all its warps run one program."""
    schedule = launch.plan.schedule
    if schedule is not None and not isinstance(schedule, Schedule):
        raise CompilerBug(f"a schedule of another target: {schedule}")
    return schedule
