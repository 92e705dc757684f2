"""Pipelines between producer and consumers: load groups with stages in shared memory, and the states of partitions.

Takes load groups and numbers of stages, gives `PipelineBuffer`s; for each partition, its `PipelineState`s. Groups that
fill the same tile do so in turn in one pipeline. Invariant: both partitions count the fills of a pipeline in the same
way, so that index and phase of a fill are the same for both. Producers begin with the phase before the first, which
counts as complete.

Where blocks of a cluster load by multicast, readers release stages to all blocks that write to their tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, binary, const, int_const, select
from tilelang.ir.pipeline import Acquire, Commit, Pipeline, Release, Wait, barriers
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Bind, For, Group, Stmt, Store
from tilelang.records import record
from tilelang.schedule.iteration import iteration_number, trip_count
from tilelang.schedule.load_groups import LoadGroup
from tilelang.schedule.multicast import ClusterBlocks
from tilelang.transforms.versions import versioned

_ZERO, _ONE = const(0, INT32), const(1, INT32)


@record(slots=True, eq=False)
class PipelineBuffer:
    """A load group with its pipeline.

    Attributes:
        load_group: The copies.
        pipeline: The pipeline that they fill.
        tiles: For each tile, the buffer with all its stages; the tile itself where there is one stage.
        multicast: The tiles that are loaded by multicast, and the dimensions of the grid along which their blocks lie.
        senders: The ranks in the cluster of the blocks that load for this one, itself first; empty where no other does.
    """

    load_group: LoadGroup
    pipeline: Pipeline
    tiles: Mapping[Buffer, Buffer]
    multicast: Mapping[Buffer, tuple[int, ...]]
    senders: tuple[Expr, ...]

    @property
    def versions(self) -> int:
        """The number of stages."""
        return self.pipeline.stages

    @property
    def signals_cluster(self) -> bool:
        """Whether consumers release stages to other blocks."""
        return self.pipeline.empty is not None and bool(self.senders)

    def acquire(self, state: PipelineState) -> Stmt:
        """The producer waits until the stage is empty."""
        return Acquire(self.pipeline, state.index, state.phase)

    def commit(self, state: PipelineState) -> Stmt:
        """The producer has issued the copies of a stage."""
        return Commit(self.pipeline, state.index)

    def on_stage(self, state: PipelineState) -> dict[Buffer, tuple[Buffer, Expr]]:
        """For each tile with several stages, the buffer of all of them and the index of the stage: for `OnVersion`."""
        return {tile: (stages, state.index) for tile, stages in self.tiles.items() if stages is not tile}

    def full_barrier(self, state: PipelineState) -> Region:
        """The barrier on which the copies of a stage complete."""
        return Region(self.pipeline.full, (state.index,), (_ONE,))

    def wait(self, state: PipelineState) -> Stmt:
        """A consumer waits until the stage is full."""
        return Wait(self.pipeline, state.index, state.phase)

    def release(self, index: Expr) -> list[Stmt]:
        """Consumers have read the tiles of a stage; nothing where no stage is filled twice."""
        return [] if self.pipeline.empty is None else [Release(self.pipeline, index)]


def pipeline_buffers(
    load_groups: Sequence[LoadGroup],
    stages: int,
    partitions: tuple[Group, Group],
    readers: int,
    *,
    only_mma_reads: bool,
    multicast: Mapping[Buffer, tuple[int, ...]],
    cluster: ClusterBlocks,
) -> list[PipelineBuffer]:
    """A load group with its pipeline, or all groups that fill one tile in turn, with theirs.

    Args:
        load_groups: The groups.
        stages: The most stages that it may have; it has no more than fills.
        partitions: The producer and the consumers.
        readers: How many threads of the consumers read its tiles each time.
        only_mma_reads: Whether only matrix units do.
        multicast: Tiles that blocks load by multicast, and the dimensions of the grid along which these blocks lie.
        cluster: The blocks of the cluster.
    """
    load_group = load_groups[0]
    multicast = {tile: axes for tile, axes in multicast.items() if tile in load_group.tiles}
    most = load_group.fill_count().maximum
    stages = stages if most is None else max(1, min(stages, most))
    name = load_group.tiles[0].name
    full = barriers(f"{name}_full", stages)
    empty = None if most is not None and most <= stages else barriers(f"{name}_empty", stages)
    tiles = {tile: tile if stages == 1 else versioned(tile, stages) for tile in load_group.tiles}
    senders = cluster.senders(multicast.values())
    pipeline = Pipeline(
        name,
        tuple(tiles.values()),
        stages,
        full,
        empty,
        *partitions,
        readers,
        bytes=load_group.bytes,
        only_mma_reads=only_mma_reads,
        blocks=len(senders) or 1,
    )
    return [PipelineBuffer(each, pipeline, tiles, multicast, senders) for each in load_groups]


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
    one counter for all its pipelines; for a pipeline of several groups, all fills before the next one, in front of a
    loop of them or not; elsewhere index and phase, by counters that go on with each fill.

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
        # fills before a loop, or of a pipeline
        self._before: dict[For | Pipeline, Buffer] = {} if among is None else dict(among._before)
        self._of_loop: dict[For, list[Buffer]] = {}  # the counters that go on after a loop
        for each in pipelines:
            if each.load_group.fill_count().preceding is not None:
                continue
            loop = each.load_group.fills_each_iteration_of()
            counted = each.pipeline if each.load_group.others else loop
            if counted is None:
                self._counted[each] = tuple(map(_scalar, ("version", "phase") if waits else ("version",)))
                self.counters += [Alloc(counter, _ZERO) for counter in self._counted[each]]
                continue
            if counted not in self._before:
                self._before[counted] = _scalar("fills")
                self.counters.append(Alloc(self._before[counted], _ZERO))
            if loop is not None and among is None and self._before[counted] not in self._of_loop.get(loop, ()):
                self._of_loop.setdefault(loop, []).append(self._before[counted])

    def is_counted(self, each: PipelineBuffer) -> bool:
        """Whether index and phase of a pipeline go on with each fill, and are not known of another one."""
        return each in self._counted

    def after_loop(self, loop: For, rename: Callable[[Expr], Expr] = lambda expr: expr) -> list[Stmt]:
        """The statements after a loop that count its fills."""
        counters = self._of_loop.get(loop, ())
        times = rename(binary(BinaryOp.MAX, trip_count(loop), _ZERO)) if counters else _ZERO
        return [Store(counter, (), Load(counter, (), INT32) + times, loc=loop.loc) for counter in counters]

    def state(self, each: PipelineBuffer, rename: Callable[[Expr], Expr] = lambda expr: expr) -> PipelineState:
        """The state in the sequence that holds the load group.

        Args:
            each: The pipeline.
            rename: Replaces variables and scalars of an expression by those of this partition.
        """
        if each in self._counted:
            return self._from_counters(each)
        loop = each.load_group.fills_each_iteration_of()
        counter = self._before.get(each.pipeline, self._before.get(loop) if loop is not None else None)
        if counter is not None:
            return self._from_fills(each, counter, loop, rename)
        fills = each.load_group.fill_count()
        assert fills.preceding is not None
        number = rename(fills.preceding)
        if each.pipeline.empty is None:
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

    def _from_fills(
        self, each: PipelineBuffer, counter: Buffer, loop: For | None, rename: Callable[[Expr], Expr]
    ) -> PipelineState:
        """The state from the fills before a loop and the number of the iteration, or from all fills before this one."""
        fill, before = Var("fill", INT32, index=True), Load(counter, (), INT32)
        number = before if loop is None else before + rename(iteration_number(loop))
        bound = Bind(fill, binary(BinaryOp.BITAND, number, const(2**31 - 1, INT32)))  # provably not negative
        after = () if loop is not None else (Store(counter, (), before + 1),)
        if each.versions == 1:
            return PipelineState((bound,), _ZERO, fill % 2 if self._waits else _ZERO, after)
        version, phase = (Var(text, INT32, index=True) for text in ("version", "phase"))
        binds = (bound, Bind(version, fill % each.versions), Bind(phase, fill // each.versions % 2))
        return PipelineState(binds if self._waits else binds[:2], version, phase if self._waits else _ZERO, after)

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
