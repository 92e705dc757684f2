"""The schedule of a warp-specialized launch: one record, written by `choose_schedule` and read by later passes."""

from __future__ import annotations

import math

from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.ir.launch import WarpSchedule
from tilelang.ir.stmt import Launch
from tilelang.records import record
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.modulo import ModuloSchedule
from tilelang.schedule.software_pipeline import Speculation

MAX_BLOCKS_PER_SM = 2  # with more, blocks would have too few registers for the accumulators of wgmma
ONE_BLOCK = "one block at once on a multiprocessor"  # how the note begins that says why
WARPGROUP_THREADS = 128  # Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"

# Named barriers 1 to 4 are those of warpgroups that issue gemms one after another; the compiler numbers others from 15
# downwards, and none below 8
VOTE_BARRIER = 5  # at which the first consumer warpgroup votes; the others follow
MAX_VOTING_WARPGROUPS = 3


@record(slots=True)
class TileOrder:
    """In which order persistent blocks take tiles that take different times.

    Tiles along all dimensions but one form groups. Inside a group, those with the same index along that dimension
    follow each other.

    Attributes:
        axis: The dimension of the grid along which the times differ.
        group: Tiles of a group along all other dimensions, taken as one, the first fastest.
        descending: Whether the largest index along `axis` comes first.
        tiles: How many tiles the grid has.
    """

    axis: int
    group: int
    descending: bool
    tiles: int

    def __str__(self) -> str:
        """The text that `kernel.explain()` shows."""
        index = f"{'descending' if self.descending else 'ascending'} {'xyz'[self.axis]}"
        return f"heaviest first ({index}) in groups of {self.group} along the other dimensions, as they become idle"


@record(slots=True)
class Schedule(WarpSchedule):
    """The division of a block's work among producer and consumer warps.

    Attributes:
        consumers: Consumer warpgroups.
        stages: Stages of the tiles that pipelined loops load.
        outer_stages: Stages of the tiles that are loaded outside of pipelined loops.
        producer_threads: Threads of the producer; one of them issues the copies.
        registers: Registers per thread of consumers and of the producer, set by setmaxnreg; None sets none.
        persistent: Whether blocks loop over the tiles of the grid.
        panel: (size, order) as in `T.use_swizzle`: the tile order of a persistent kernel; None is row-major.
        tile_order: The tile order of a persistent kernel whose tiles take different times; then `panel` has no effect.
        epilogue_parts: In how many parts the epilogue stores asynchronously through staging tiles in shared memory; 0
            if it stores from registers.
        staged_additions: Whether atomic additions of pipelined loops are asynchronous, through shared memory.
        ping_pong: Whether two consumer warpgroups each compute every other tile, instead of sharing each tile.
        ordered_issue: Whether consumer warpgroups that share a tile issue the gemms of software-pipelined loops one
            after another.
        cluster: Blocks of a cluster along the dimensions of the grid.
        multicast: Tiles that blocks of a cluster load by multicast, each block one part, and the dimensions of the grid
            along which these blocks lie.
        split_k: Blocks of a cluster that split the reduction of a tile, neighbors along the first dimension.
        loops: The loops of consumers in which something overlaps, by their variables.
        speculations: The steps of a softmax in such loops that look for no largest score, by the loops' variables.
        computed: Tiles that threads compute in such loops in two versions.
        blocks_per_sm: Blocks for which a multiprocessor has shared memory and registers at once.
    """

    consumers: int
    stages: int
    outer_stages: int = 1
    producer_threads: int = 32
    registers: tuple[int, int] | None = None
    persistent: bool = False
    panel: tuple[int, str] | None = None
    tile_order: TileOrder | None = None
    epilogue_parts: int = 0
    staged_additions: bool = False
    ping_pong: bool = False
    ordered_issue: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)
    multicast: tuple[tuple[Buffer, tuple[int, ...]], ...] = ()
    split_k: int = 1
    loops: tuple[tuple[Var, ModuloSchedule], ...] = ()
    speculations: tuple[tuple[Var, Speculation], ...] = ()
    computed: tuple[Buffer, ...] = ()
    blocks_per_sm: int = 1

    @property
    def consumer_threads(self) -> int:
        """Threads of all consumers; they are the first of the block."""
        return self.consumers * WARPGROUP_THREADS

    @property
    def tile_threads(self) -> int:
        """Threads that compute one tile."""
        return WARPGROUP_THREADS if self.ping_pong else self.consumer_threads

    @property
    def mma_in_flight(self) -> int:
        """Gemms of loops that are one gemm which still run when the next one is issued."""
        return max((each.in_flight for _, each in self.loops), default=0)

    @property
    def reorders(self) -> bool:
        """Whether consumers run the statements of a loop in another order than that of the program."""
        return any(not each.in_flight for _, each in self.loops)

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster."""
        return math.prod(self.cluster)

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return self.consumer_threads + self.producer_threads

    def overrides(self) -> ScheduleOverrides:
        """Return the overrides by which a user gets this schedule, but for placements of loops."""
        return ScheduleOverrides(
            persistent=self.persistent,
            consumers=None if self.ping_pong else self.consumers,
            stages=self.stages,
            epilogue_parts=int(self.epilogue_parts),
            mma_in_flight=self.mma_in_flight,
            ping_pong=self.ping_pong or self.ordered_issue,
            cluster=None if self.split_k > 1 else self.cluster,
            split_k=self.split_k,
            registers=self.registers,
            blocks_per_sm=self.blocks_per_sm if self.blocks_per_sm > 1 else None,
        )

    def __str__(self) -> str:
        """The text that `kernel.explain()` shows."""
        parts = [f"{self.consumers} consumer warpgroup{'s' if self.consumers > 1 else ''}"]
        if self.ping_pong:
            parts[0] += " in ping-pong"
        if self.ordered_issue:
            parts[0] += " that issue gemms one after another"
        parts.append(f"a producer of {self.producer_threads} threads")
        parts.append(f"{self.stages} stage{'s' if self.stages > 1 else ''}")
        if self.outer_stages > 1:
            parts.append(f"{self.outer_stages} stages of tiles loaded outside of the main loop")
        if self.registers is not None:
            parts.append("{} registers per consumer thread and {} per producer thread".format(*self.registers))
        if self.blocks_per_sm > 1:
            parts.append(f"{self.blocks_per_sm} blocks at once on a multiprocessor")
        if self.persistent:
            order = "row by row" if self.panel is None else f"in panels of {self.panel[0]} ({self.panel[1]})"
            order = order if self.tile_order is None else str(self.tile_order)
            parts.append(f"persistent blocks that compute the tiles of the grid {order}")
        if self.split_k > 1:
            parts.append(f"split-K over clusters of {self.split_k} blocks")
        if self.epilogue_parts:
            times = f" in {self.epilogue_parts} parts" if self.epilogue_parts > 1 else ""
            parts.append(f"asynchronous epilogue stores through shared memory{times}")
        if self.staged_additions:
            parts.append("asynchronous atomic additions through shared memory")
        if self.mma_in_flight:
            parts.append(f"{self.mma_in_flight} gemm in flight")
        if self.cluster != (1, 1, 1):
            parts.append("clusters of {} blocks".format(" x ".join(map(str, self.cluster)).removesuffix(" x 1")))
        for tile, axes in self.multicast:
            parts.append(f"'{tile.name}' loaded by multicast among {math.prod(self.cluster[a] for a in axes)} blocks")
        return ", ".join(parts)


def schedule_of(launch: Launch) -> Schedule | None:
    """The schedule of a launch; None if its warps are not specialized."""
    schedule = launch.plan.schedule
    if schedule is not None and not isinstance(schedule, Schedule):
        raise CompilerBug(f"a schedule of another target: {schedule}")
    return schedule
