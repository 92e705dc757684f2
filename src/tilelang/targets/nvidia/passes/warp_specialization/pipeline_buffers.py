"""Pipelines between producer and consumers: multi-buffered tiles with full and empty barriers for each stage.

Takes load groups and a schedule, gives `PipelineBuffer`s; for each partition, its `PipelineState`s. Invariant: both
partitions count the fills of a pipeline in the same way, so that index and phase of a fill are the same for both.

A full barrier counts one arrival, which announces the bytes, and the bytes. An empty barrier counts the arrivals of
readers: one for each warpgroup if only wgmma reads the tiles, since that completes for all four warps at once,
otherwise one for each warp after a barrier of its lanes, since arrivals of lanes would follow one another. Producers
begin with the phase before the first, which counts as complete.

Where blocks of a cluster load by multicast, readers arrive at the empty barriers of all blocks that write to their
tiles: a barrier then counts the readers in all blocks that its own block writes to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, binary, const, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, If, Stmt, Store
from tilelang.records import record
from tilelang.schedule.iteration import iteration_number, trip_count
from tilelang.schedule.load_groups import LoadGroup
from tilelang.targets.gpu.isa.sync import SYNC_WARP
from tilelang.targets.nvidia.isa.cluster import mbarrier_arrive_remote
from tilelang.targets.nvidia.isa.mbarrier import (
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_WAIT,
)
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.passes.warp_specialization.multicast import ClusterBlocks
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule
from tilelang.transforms.versions import versioned

_OPAQUE = SCALARS["uint64"]  # an object of 64 bits. Source: PTX ISA, "mbarrier", "Contents"
_ZERO, _ONE = const(0, INT32), const(1, INT32)
ALL_LANES = const(2**WARP_SIZE - 1, SCALARS["uint32"])


@record(slots=True, eq=False)
class PipelineBuffer:
    """A load group with its stages in shared memory.

    Attributes:
        load_group: The copies.
        versions: The number of stages.
        tiles: For each tile, the buffer with all its stages; the tile itself where there is one stage.
        full: One full barrier for each stage.
        empty: One empty barrier for each stage; None where no stage is filled twice.
        wgmma_only: Whether only wgmma reads the tiles.
        multicast: The tiles that are loaded by multicast, and the dimensions of the grid along which their blocks lie.
        senders: The ranks in the cluster of the blocks that load for this one, itself first; empty where no other does.
        sender: In the consumers' program, the block at whose empty barrier a thread arrives.
    """

    load_group: LoadGroup
    versions: int
    tiles: Mapping[Buffer, Buffer]
    full: Buffer
    empty: Buffer | None
    wgmma_only: bool
    multicast: Mapping[Buffer, tuple[int, ...]]
    senders: tuple[Expr, ...]
    sender: Var

    @property
    def signals_cluster(self) -> bool:
        """Whether consumers signal barriers of other blocks."""
        return self.empty is not None and bool(self.senders)

    def barrier_inits(self, schedule: Schedule) -> list[Stmt]:
        """Initializes the barriers."""
        arrivals = schedule.tile_threads // (WARPGROUP_THREADS if self.wgmma_only else WARP_SIZE)
        arrivals *= len(self.senders) or 1  # as many blocks write to this one as it writes to
        inits: list[Stmt] = []
        for barriers, count in ((self.full, 1), (self.empty, arrivals)):
            if barriers is not None:
                places = [_at(barriers, const(number, INT32)) for number in range(self.versions)]
                inits += [CallStmt(MBARRIER_INIT, (barrier, const(count, INT32))) for barrier in places]
        return inits


def pipeline_buffer(
    load_group: LoadGroup, schedule: Schedule, cluster: ClusterBlocks, *, wgmma_only: bool
) -> PipelineBuffer:
    """A load group with the number of stages that the schedule gives it."""
    multicast = {tile: axes for tile, axes in schedule.multicast if tile in load_group.tiles}
    versions = schedule.stages if load_group.pipelined else schedule.outer_stages
    most = load_group.fill_count().maximum
    versions = versions if most is None else max(1, min(versions, most))
    name = load_group.tiles[0].name
    count = (const(versions, INT32),)
    return PipelineBuffer(
        load_group,
        versions,
        {tile: tile if versions == 1 else versioned(tile, versions) for tile in load_group.tiles},
        Buffer(f"{name}_full", count, _OPAQUE, Scope.BARRIER),
        None if most is not None and most <= versions else Buffer(f"{name}_empty", count, _OPAQUE, Scope.BARRIER),
        wgmma_only,
        multicast,
        cluster.senders(multicast.values()),
        Var("sender", INT32),
    )


@record(slots=True)
class PipelineState:
    """The stage that a partition fills or reads next.

    Attributes:
        setup: Statements that define the index and the phase.
        index: The number of the stage.
        phase: The phase of its full barrier, 0 or 1.
        advance: Statements that go on to the next stage.
    """

    setup: tuple[Stmt, ...]
    index: Expr
    phase: Expr
    advance: tuple[Stmt, ...] = ()


class PartitionStates:
    """The states of one partition in all pipelines.

    What only run time gives is counted: for a loop all of whose iterations fill a stage, the fills before the loop, by
    one counter for all its pipelines; elsewhere index and phase, by counters that go on with each fill.

    Args:
        pipelines: The pipelines.
        waits: Whether the partition waits by these states; otherwise they have no phase.
        among: Other states of the same partition, whose counters of loops these read, too.

    Attributes:
        counters: Allocations of the counters, to stand at the beginning of the partition.
    """

    def __init__(
        self, pipelines: Sequence[PipelineBuffer], *, waits: bool = True, among: PartitionStates | None = None
    ) -> None:
        self.counters: list[Stmt] = []
        self._waits = waits
        self._counted: dict[PipelineBuffer, tuple[Buffer, ...]] = {}
        self._before: dict[For, Buffer] = {} if among is None else dict(among._before)  # fills before a loop
        for each in pipelines:
            if each.load_group.fill_count().preceding is not None:
                continue
            loop = each.load_group.fills_each_iteration_of()
            if loop is None:
                self._counted[each] = tuple(map(_scalar, ("version", "phase") if waits else ("version",)))
                self.counters += [Alloc(counter, _ZERO) for counter in self._counted[each]]
            elif loop not in self._before:
                self._before[loop] = _scalar("fills")
                self.counters.append(Alloc(self._before[loop], _ZERO))

    def is_counted(self, each: PipelineBuffer) -> bool:
        """Whether index and phase of a pipeline go on with each fill, and are not known of another one."""
        return each in self._counted

    def after_loop(self, loop: For, rename: Callable[[Expr], Expr] = lambda expr: expr) -> list[Stmt]:
        """The statement after a loop that counts its fills."""
        if loop not in self._before:
            return []
        counter = self._before[loop]
        times = rename(binary(BinaryOp.MAX, trip_count(loop), _ZERO))
        return [Store(counter, (), Load(counter, (), INT32) + times, loc=loop.loc)]

    def state(self, each: PipelineBuffer, rename: Callable[[Expr], Expr] = lambda expr: expr) -> PipelineState:
        """The state in the sequence that holds the load group.

        Args:
            each: The pipeline.
            rename: Replaces variables and scalars of an expression by those of this partition.
        """
        if each in self._counted:
            return self._from_counters(each)
        loop = each.load_group.loop
        if loop is not None and loop in self._before:
            return self._from_loop(each, loop, rename)
        fills = each.load_group.fill_count()
        assert fills.preceding is not None
        number = rename(fills.preceding)
        if each.empty is None:
            return _bound_state("version", number, _ZERO)
        if each.versions == 1:
            return _bound_state("phase", _ZERO, number % 2 if self._waits else _ZERO)
        version, phase = number % each.versions, number // each.versions % 2
        if not self._waits:
            return _bound_state("version", version, _ZERO)
        if int_const(number) is not None:
            return PipelineState((), version, phase)
        first, second = (Var(text, INT32, index=True) for text in ("version", "phase"))
        return PipelineState((Bind(first, version), Bind(second, phase)), first, second)

    def _from_loop(self, each: PipelineBuffer, loop: For, rename: Callable[[Expr], Expr]) -> PipelineState:
        """The state from the fills before a loop and the number of the iteration."""
        fill = Var("fill", INT32, index=True)
        number = Load(self._before[loop], (), INT32) + rename(iteration_number(loop))
        bound = Bind(fill, binary(BinaryOp.BITAND, number, const(2**31 - 1, INT32)))  # provably not negative
        if each.versions == 1:
            return PipelineState((bound,), _ZERO, fill % 2 if self._waits else _ZERO)
        version, phase = (Var(text, INT32, index=True) for text in ("version", "phase"))
        binds = (bound, Bind(version, fill % each.versions), Bind(phase, fill // each.versions % 2))
        return PipelineState(binds, version, phase) if self._waits else PipelineState(binds[:2], version, _ZERO)

    def _from_counters(self, each: PipelineBuffer) -> PipelineState:
        counters = self._counted[each]
        names = [Var(counter.name, INT32) for counter in counters]
        before = [Bind(name, Load(counter, (), INT32)) for name, counter in zip(names, counters, strict=True)]
        version, *phases = names
        is_last = version == each.versions - 1
        steps = (select(is_last, _ZERO, version + 1), *(select(is_last, 1 - phase, phase) for phase in phases))
        after = [Store(counter, (), step) for counter, step in zip(counters, steps, strict=True)]
        return PipelineState(tuple(before), version, phases[0] if phases else _ZERO, tuple(after))


def _bound_state(text: str, version: Expr, phase: Expr) -> PipelineState:
    """A state of which only index or phase needs a variable."""
    value = version if text == "version" else phase
    if int_const(value) is not None or isinstance(value, Var):
        return PipelineState((), version, phase)
    name = Var(text, INT32, index=True)
    parts = (name, phase) if text == "version" else (version, name)
    return PipelineState((Bind(name, value),), *parts)


def _scalar(name: str) -> Buffer:
    return Buffer(name, (), INT32, Scope.VAR)


def _at(barriers: Buffer, number: Expr) -> Region:
    return Region(barriers, (number,), (_ONE,))


# -- operations of partitions --------------------------------------------------------------------------------------
def consumer_wait(each: PipelineBuffer, state: PipelineState) -> list[Stmt]:
    """A consumer waits until the stage is full."""
    return [CallStmt(MBARRIER_WAIT, (_at(each.full, state.index), state.phase))]


def consumer_release(each: PipelineBuffer, index: Expr, thread: Expr) -> list[Stmt]:
    """Consumers have read the tiles of a stage: they arrive at its empty barrier."""
    if each.empty is None:
        return []
    if each.senders:
        arrive = CallStmt(mbarrier_arrive_remote(), (_at(each.empty, index), each.sender))
        return [If(thread % WARPGROUP_THREADS < len(each.senders), arrive)]
    arrive = CallStmt(MBARRIER_ARRIVE, (_at(each.empty, index),))
    if each.wgmma_only:
        return [If(thread % WARPGROUP_THREADS == 0, arrive)]
    return [CallStmt(SYNC_WARP, (ALL_LANES,)), If(thread % WARP_SIZE == 0, arrive)]


def producer_acquire(each: PipelineBuffer, state: PipelineState) -> list[Stmt]:
    """The producer waits until the stage is empty, and announces the bytes of its copies."""
    waits: list[Stmt] = []
    if each.empty is not None:
        waits.append(CallStmt(MBARRIER_WAIT, (_at(each.empty, state.index), 1 - state.phase)))
    count = const(each.load_group.bytes, INT32)
    return [*waits, CallStmt(MBARRIER_ARRIVE_EXPECT_TX, (_at(each.full, state.index), count))]


def full_barrier(each: PipelineBuffer, state: PipelineState) -> Region:
    """The barrier on which the copies of a stage complete."""
    return _at(each.full, state.index)
