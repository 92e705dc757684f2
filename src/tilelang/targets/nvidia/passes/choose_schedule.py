"""Decides whether warps of a block specialize into producer and consumers, and chooses their schedule.

Takes a target's table of lowerings; gives the pass, which writes `plan.schedule` and, on gemms, the plans of wgmma that
it relies on. Invariant: of the program only the row length of tiles (`pad_rows`), the cluster (`choose_cluster`) and
loops that `loop_schedules` prepares change; what `pass_configs` set holds or is an error, but for clusters whose
blocks share no tile; a note gives the reason where a launch with a pipelined gemm is not specialized.

The choices follow measurements of hand-written kernels on an H200: consumer warpgroups with multiples of 64 rows each,
enough stages to hide the latency of memory, persistent blocks where tiles outnumber multiprocessors, and an epilogue
that stores through shared memory while the next tile is computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.arith.domain import of_function
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Launch, Seq, Stmt
from tilelang.ir.timeline import Timeline
from tilelang.ir.visit import Rewriter, walk
from tilelang.lowering.lowering import Lowerings
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property
from tilelang.passes.tile import demote_fragments, flatten_parallel
from tilelang.passes.tile.expand_to_loops import all_but_gemms_expanded
from tilelang.saved_schedule import MAX_CLUSTER, Placement, ScheduleOverrides, fields_set
from tilelang.schedule.load_groups import LoadGroup, LoadGroups, flatten_sequences, pipelined_loops
from tilelang.schedule.override_errors import (
    check_launches,
    check_only_placements,
    impossible,
    impossible_together,
    nearest_fitting,
)
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.passes.choose_cluster import Extents, cluster_of, is_persistent, with_multicast
from tilelang.targets.nvidia.passes.choose_split_k import choose_cluster_splits
from tilelang.targets.nvidia.passes.choose_tile_order import choose_tile_order, panel_of
from tilelang.targets.nvidia.passes.cluster_split_k import split
from tilelang.targets.nvidia.passes.gemm_loop import NotSplit
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import (
    TargetCapabilities,
    launch_overrides,
    target_capabilities,
)
from tilelang.targets.nvidia.passes.warp_specialization.check_overrides import check_overrides, check_placements
from tilelang.targets.nvidia.passes.warp_specialization.consumer_count import choose_consumers
from tilelang.targets.nvidia.passes.warp_specialization.epilogue import first_release
from tilelang.targets.nvidia.passes.warp_specialization.held_operands import with_held_operands
from tilelang.targets.nvidia.passes.warp_specialization.launch_rules import (
    NotSpecialized,
    check_launch,
    pipelined_gemms,
)
from tilelang.targets.nvidia.passes.warp_specialization.loop_schedules import loop_schedules
from tilelang.targets.nvidia.passes.warp_specialization.pad_rows import pad_rows_to_swizzle_span
from tilelang.targets.nvidia.passes.warp_specialization.placed_loops import Placed, with_free_loops
from tilelang.targets.nvidia.passes.warp_specialization.prepared_loops import (
    LoopSchedule,
    issues_in_order,
    with_prepared_loops,
)
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import (
    fits_ping_pong,
    live_tile_registers,
    producer_and_registers,
)
from tilelang.targets.nvidia.passes.warp_specialization.shared_memory_budget import shared_memory_budget
from tilelang.targets.nvidia.passes.warp_specialization.tile_intervals import block_cycles, ping_pong_refusal
from tilelang.targets.nvidia.schedule import MAX_BLOCKS_PER_SM, ONE_BLOCK, WARPGROUP_THREADS, Schedule
from tilelang.transforms.fuse_clears import fuse_clears
from tilelang.transforms.loop_bounds import WithExactBounds

_FEW_STAGES = 3  # with fewer, second versions of computed tiles would take what loads need


def choose_schedule(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        if not context.target.has(Feature.TMA | Feature.WGMMA | Feature.MBARRIER):
            check_only_placements(func, context.options, context.target.arch)
            return func
        check_launches(func, context.options)
        capabilities = target_capabilities(func, lowerings, context)
        body = _Launches(func, capabilities).visit(func.body) or Seq((), loc=func.body.loc)
        return func if body is func.body else dataclasses.replace(func, body=body)

    return Pass(
        "choose_schedule", run, Level.TILE, Level.TILE,
        requires=(
            Property.GRID_AS_WRITTEN,
            Property.TENSOR_LAYOUTS_APPLIED,
            Property.OPERATORS_UNEXPANDED,
            Property.TILE_DTYPES_NARROWED,
            Property.USER_PIPELINES_VERSIONED,
        ),
        establishes=(Property.SCHEDULE_CHOSEN,),
    )


class _Launches(Rewriter):
    def __init__(self, func: PrimFunc, capabilities: TargetCapabilities) -> None:
        self._func, self._capabilities = func, capabilities
        self._overrides = launch_overrides(func, capabilities.context)

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        free_node, placed = with_free_loops(node)
        pipelined = pipelined_loops(free_node.body)
        if not any(isinstance(s, Gemm) for loop in pipelined for s in walk(loop)):
            return node
        body = WithExactBounds().visit(free_node.body) or free_node.body
        padded_node = pad_rows_to_swizzle_span(dataclasses.replace(node, body=body), self._capabilities.layouts)
        overrides = given = self._overrides[node]
        asked = min(node.hints.min_blocks_per_sm or 1, MAX_BLOCKS_PER_SM)
        if overrides.blocks_per_sm is None and (blocks := max(asked, node.plan.blocks_per_sm)) > 1:
            overrides = dataclasses.replace(overrides, blocks_per_sm=blocks)
        notes = [*node.plan.notes]
        for each in dict.fromkeys((overrides, given)):
            choice = _Choice(self._func, padded_node, self._capabilities, each, placed)
            try:
                schedule = choice.schedule()
                break
            except NotSpecialized as reason:
                what = "not specialized" if each == given else ONE_BLOCK
                notes.append(Note(f"{what}: {reason}", node.loc))
                if each == given and fields_set(given):
                    self._check_alone(padded_node, given, str(reason), placed)
        else:
            return dataclasses.replace(node, plan=dataclasses.replace(node.plan, notes=tuple(notes)))
        node = padded_node
        notes += [Note(f"specialized: {schedule}", node.loc), *choice.notes]
        notes += [*choice.partition_notes, *choice.loop_notes]
        for loop in pipelined:
            requested = 0 if loop.pipeline is None else loop.pipeline.num_stages
            if schedule.stages < requested:
                notes.append(Note(f"T.Pipelined: {schedule.stages} of {requested} stages fit or are of use", loop.loc))
        if (release := first_release(node)) is not None:
            notes.append(Note("results are stored by threads, since flags signal them to other blocks", release.loc))
        plan = dataclasses.replace(node.plan, schedule=schedule, placements=choice.placements, notes=tuple(notes))
        timelines = (*(each.timeline for each in choice.loop_schedules), *choice.in_order)
        plan = dataclasses.replace(plan, timelines=timelines)
        node = self._capabilities.with_plans(choice.prepared or choice.launch, choice.gemms, schedule.tile_threads)
        return dataclasses.replace(node, hints=dataclasses.replace(node.hints, cluster=schedule.cluster), plan=plan)

    def _check_alone(self, launch: Launch, overrides: ScheduleOverrides, reason: str, placed: Placed) -> None:
        """Raises if warps are not specialized because of what the user sets."""
        free = ScheduleOverrides(specialized=overrides.specialized)
        try:
            fitting = _Choice(self._func, launch, self._capabilities, free, placed).schedule()
        except NotSpecialized:
            return
        possible = dataclasses.replace(fitting.overrides(), blocks_per_sm=fitting.blocks_per_sm)
        raise impossible_together(launch, overrides, reason, possible)


class _Choice:
    """The choice for one launch, whose loops are the compiler's but for those that the user places.

    Attributes:
        launch: The launch, with operands in registers where that pays.
        notes: Overrides that are left out, and what the producer recomputes.
        gemms: The gemms of pipelined loops.
        loop_schedules: The loops in which something overlaps.
        partition_notes: What its partition of the tiles among consumers takes, and another one.
        loop_notes: What is to be said of these, and why it leaves others in program order.
        in_order: The timelines of the others.
        prepared: The launch with the loops of another order prepared for it; None if there are none.
    """

    def __init__(
        self,
        func: PrimFunc,
        launch: Launch,
        capabilities: TargetCapabilities,
        overrides: ScheduleOverrides,
        placed: Placed,
    ) -> None:
        self.launch = launch
        self._func, self._capabilities, self._placed = func, capabilities, placed
        self._demoted: dict[Launch, list[Buffer]] = {}
        self._launch = flatten_sequences(launch)
        self._target = capabilities.context.target
        self._blocks_per_sm = overrides.blocks_per_sm or 1
        if self._blocks_per_sm > 1 and overrides.persistent is None:
            overrides = dataclasses.replace(overrides, persistent=False)
        self._overrides = overrides
        self._split_k = 1  # blocks that split the reduction of a tile
        self._doubled: tuple[Buffer, ...] = ()  # computed tiles with two versions
        self.notes: list[Note] = []
        self.gemms: list[Gemm] = []
        self.loop_schedules: list[LoopSchedule] = []
        self.partition_notes: list[Note] = []
        self.loop_notes: list[Note] = []
        self.in_order: list[Timeline] = []
        self.prepared: Launch | None = None

    def schedule(self) -> Schedule:
        """The schedule.

        Raises:
            NotSpecialized: There is none, or none that pays.
        """
        check_launch(self._launch, specialized=self._overrides.specialized)
        load_groups = self._capabilities.load_groups(self._launch)
        self.gemms = pipelined_gemms(self._launch, load_groups)
        consumers = self._consumers()
        load_groups = self._with_held_operands(consumers) or load_groups
        self.notes += self._recomputed(load_groups.found)
        schedule = self._split_k_schedule(consumers) or self._with_second_versions(load_groups, consumers)
        launch, shared_bytes = self._launch, self._target.machine.shared_of_block(self._blocks_per_sm)
        stores = self._capabilities.epilogue_stores(launch, schedule.tile_threads)
        check_overrides(launch, self._overrides, schedule, load_groups.found, stores, shared_bytes)
        check_placements(pipelined_loops(launch.body), self._overrides.loops, self.placements, schedule)
        return schedule

    def _with_held_operands(self, consumers: int) -> LoadGroups | None:
        """Holds operands in registers; the load groups of what that makes of the launch, if anything."""
        held, notes = with_held_operands(self._launch, self.gemms, consumers, self._capabilities)
        if held is self._launch:
            return None
        self.launch = self._launch = held
        self.notes += notes
        load_groups = self._capabilities.load_groups(held)
        self.gemms = pipelined_gemms(held, load_groups)
        return load_groups

    def _with_second_versions(self, load_groups: LoadGroups, consumers: int) -> Schedule:
        """The schedule of whole tiles, with two versions of computed tiles where these save cycles and fit."""
        notes = tuple(self.notes)
        whole = self._whole_tile_schedule(load_groups, consumers)
        schedule = self._with_loop_schedules(whole, double=True)
        self._doubled = schedule.computed
        if not self._doubled:
            return schedule
        stages = max(one.schedule.stages for one in self.loop_schedules if one.doubled)
        try:
            self.notes = [*notes]
            again = self._whole_tile_schedule(load_groups, consumers)
            doubled = schedule if again == whole else self._with_loop_schedules(again, double=True)
            if stages == 1 and _uses_of_shared_memory(doubled) == _uses_of_shared_memory(schedule):
                return doubled
            if stages > 1 and doubled.stages >= max(self._overrides.stages or 0, min(schedule.stages, _FEW_STAGES)):
                return doubled
        except NotSpecialized:
            pass  # shared memory does not hold them
        self.notes, self._doubled = [*notes], ()
        return self._with_loop_schedules(self._whole_tile_schedule(load_groups, consumers), double=False)

    @property
    def placements(self) -> tuple[Placement | None, ...]:
        """The placement of the statements of each pipelined loop; None for those in program order."""
        found = {each.loop.var: each.placement for each in self.loop_schedules if not each.schedule.in_flight}
        return tuple(found.get(loop.var) for loop in pipelined_loops(self._launch.body))

    def _split_k_schedule(self, consumers: int) -> Schedule | None:
        """The schedule in which several blocks split the reduction of a tile; None if that does not pay."""
        asked = self._overrides.split_k
        blocks = asked or choose_cluster_splits(self._launch, consumers, self._target.machine)
        if blocks == 1:
            return None
        try:
            return self._split_by(blocks, consumers)
        except (NotSpecialized, NotSplit) as reason:
            if asked is None:
                return None
            fitting = nearest_fitting(blocks, MAX_CLUSTER, lambda count: self._can_split_by(count, consumers))
            raise impossible(self._launch, "split_k", blocks, str(reason), fitting) from None

    def _can_split_by(self, blocks: int, consumers: int) -> bool:
        try:
            return blocks == 1 or bool(self._split_by(blocks, consumers))
        except (NotSpecialized, NotSplit):
            return False

    def _split_by(self, blocks: int, consumers: int) -> Schedule:
        """The schedule in which `blocks` blocks split the reduction of a tile."""
        if cluster_of(self._launch, self._overrides.cluster) != (1, 1, 1):
            raise NotSpecialized("blocks run in clusters already")
        if self._overrides.persistent:
            raise NotSpecialized("'tl.persistent' lets blocks stay for several tiles")
        whole = self._launch
        try:
            self._split_k, self._launch = blocks, split(whole, blocks, consumers)
            schedule = self._best(self._capabilities.load_groups(self._launch), consumers, persistent=False)
            return self._with_loop_schedules(schedule, double=False)
        except (NotSpecialized, NotSplit):
            self._split_k, self._launch = 1, whole
            raise

    def _whole_tile_schedule(self, load_groups: LoadGroups, consumers: int) -> Schedule:
        """The schedule of blocks that each compute whole tiles."""
        cluster = cluster_of(self._launch, self._overrides.cluster, load_groups.found)
        schedule = self._in_clusters(load_groups, consumers, cluster)
        if schedule.cluster != cluster:  # the override is left out: take the cluster of the kernel
            schedule = self._in_clusters(load_groups, consumers, self._launch.hints.cluster)
        return schedule

    def _in_clusters(self, load_groups: LoadGroups, consumers: int, cluster: Extents) -> Schedule:
        """The schedule with clusters of these extents; without, if nothing is multicast and the kernel sets none."""
        persistent = is_persistent(self._launch, cluster, self._overrides.persistent, self._target.machine)
        schedule = self._best(load_groups, consumers, persistent=persistent)
        schedule, notes = with_multicast(schedule, self._launch, load_groups.found, self._capabilities, cluster)
        if schedule.persistent and schedule.cluster_size == 1 and self._launch.hints.swizzle is None:
            order = choose_tile_order(self._launch, load_groups.found)
            schedule = dataclasses.replace(schedule, tile_order=order)
        if cluster == self._launch.hints.cluster or self._overrides.cluster is not None:  # the user sets it
            self.notes += notes
        return schedule

    def _best(self, load_groups: LoadGroups, consumers: int, *, persistent: bool) -> Schedule:
        """The best schedule: `consumers` warpgroups share each tile, or two compute every other tile in ping-pong."""
        self.partition_notes = []
        shared = self._with_most_stages(load_groups, consumers, persistent, ping_pong=False)
        overrides, found = self._overrides, load_groups.found
        if not persistent or overrides.ping_pong is False or overrides.consumers and not overrides.ping_pong:
            return shared
        if ping_pong_refusal(self._launch, found, self._capabilities):
            return shared
        try:
            alternate = self._with_most_stages(load_groups, consumers, persistent, ping_pong=True)
        except NotSpecialized:
            return shared  # shared memory does not hold the results of two tiles
        together, apart = (
            block_cycles(self._launch, found, self._capabilities, each, overrides.mma_in_flight)
            for each in (shared, alternate)
        )
        sharing = f"{consumers} warpgroups share each tile" if consumers > 1 else "one warpgroup computes all tiles"
        estimate = f"by estimate a block takes {together} cycles if {sharing}, and {apart} if two are in ping-pong"
        self.partition_notes = [Note(estimate, self._launch.loc)]
        # threads that store what does not go through shared memory take longer than is estimated
        fits = fits_ping_pong(self._launch) and bool(alternate.epilogue_parts) >= bool(shared.epilogue_parts)
        better = fits and apart <= together and alternate.stages >= (overrides.stages or 0)
        return alternate if overrides.ping_pong or better else shared

    def _with_most_stages(
        self, load_groups: LoadGroups, consumers: int, persistent: bool, *, ping_pong: bool
    ) -> Schedule:
        """The schedule with as many stages as fit, for `consumers` warpgroups that share a tile, or for ping-pong."""
        sharing = 1 if ping_pong else consumers  # warpgroups that share a tile
        stores = self._capabilities.epilogue_stores(self._launch, sharing * WARPGROUP_THREADS)
        budget = shared_memory_budget(
            self._launch,
            load_groups.found,
            stores,
            self._target.machine.shared_of_block(self._blocks_per_sm) - self._capabilities.context.conversion_bytes,
            self._overrides,
            machine=self._target.machine,
            persistent=persistent,
            concurrent_tiles=2 if ping_pong else 1,
            blocks_per_sm=self._blocks_per_sm,
            demoted=self._demoted_fragments(),
            doubled=self._doubled,
        )
        if isinstance(budget, str):
            raise NotSpecialized(budget)
        consumers, stages, groups = 2 if ping_pong else consumers, budget.stages, load_groups.found
        return Schedule(
            consumers,
            stages,
            budget.outer_stages,
            *self._producer_resources(
                consumers, live_tile_registers(self._launch, sharing), groups, ping_pong=ping_pong
            ),
            persistent=persistent,
            panel=panel_of(self._launch, groups) if persistent else None,
            epilogue_parts=budget.epilogue_parts,
            staged_additions=budget.staged_additions,
            ping_pong=ping_pong,
            split_k=self._split_k,
            blocks_per_sm=self._blocks_per_sm,
        )

    def _with_loop_schedules(self, schedule: Schedule, *, double: bool) -> Schedule:
        """The schedule with those of the loops for which software pipelining takes fewer cycles than program order."""
        capabilities, threads, domain = self._capabilities, schedule.tile_threads, of_function(self._func)
        launch = fuse_clears(capabilities.with_plans(self._launch, self.gemms, threads), domain)
        groups = capabilities.load_groups(launch).found
        given, consumers = self._overrides.loops, schedule.consumers
        # of several blocks at once, one computes while the others wait
        alone = schedule.ping_pong or schedule.stages < 2 or schedule.blocks_per_sm > 1 or schedule.split_k > 1
        given, double = (None, False) if alone else (given, double)
        in_flight = self._overrides.mma_in_flight
        self.loop_schedules, self.loop_notes, self.in_order = loop_schedules(
            launch, groups, capabilities, schedule, domain, given, self._placed, double=double, in_flight=in_flight
        )
        reordered = [each for each in self.loop_schedules if not each.schedule.in_flight]
        if alone and any(each.required for each in reordered):
            raise NotSpecialized("consumers in the user's `order` and `stage` need two stages of tiles of their own")
        if alone:
            self.in_order += (each.timeline_in_order for each in reordered)
            self.loop_schedules = [each for each in self.loop_schedules if each.schedule.in_flight]
            self.loop_notes, reordered = [], []
        self.prepared = with_prepared_loops(launch, reordered) if reordered else None
        loops = tuple((one.loop.var, one.schedule) for one in self.loop_schedules)
        schedule = dataclasses.replace(schedule, loops=loops)
        if not reordered:
            return schedule
        needed = max(live_tile_registers(self._launch, consumers), *(one.registers for one in self.loop_schedules))
        producer_threads, registers = self._producer_resources(consumers, needed, groups)
        return dataclasses.replace(
            schedule,
            producer_threads=producer_threads,
            registers=registers,
            ordered_issue=issues_in_order(self.loop_schedules, consumers, self._overrides.ping_pong),
            speculations=tuple((one.loop.var, s) for one in self.loop_schedules if (s := one.speculation) is not None),
            computed=tuple(tile for one in self.loop_schedules for tile in one.doubled),
        )

    def _demoted_fragments(self) -> list[Buffer]:
        """The fragments that `demote_fragments` will keep in shared memory."""
        if self._launch not in self._demoted:
            func = dataclasses.replace(self._func, body=self._launch)
            func = all_but_gemms_expanded(func, self._capabilities.lowerings)
            func = flatten_parallel.PASS.run(func, self._capabilities.context)
            launch = next(stmt for stmt in walk(func.body) if isinstance(stmt, Launch))
            reasons = demote_fragments.demotion_reasons(func, launch)
            self._demoted[self._launch] = [buffer for buffer, reason in reasons.items() if reason]
        return self._demoted[self._launch]

    def _recomputed(self, load_groups: Sequence[LoadGroup]) -> list[Note]:
        """The note on the scalars that the producer recomputes."""
        needed = frozenset[Buffer]().union(*(load_group.backward_slice().buffers for load_group in load_groups))
        names = [f"'{s.buffer.name}'" for s in walk(self._launch.body) if isinstance(s, Alloc) and s.buffer in needed]
        return [Note(f"the producer computes {', '.join(names)} for itself", self._launch.loc)] if names else []

    # -- partitions ---------------------------------------------------------------------------------------------
    def _consumers(self) -> int:
        """The number of consumer warpgroups."""
        asked, capabilities = self._overrides.consumers, self._capabilities
        found = choose_consumers(self._launch, self.gemms, capabilities, asked, self._blocks_per_sm)
        if isinstance(found, str):
            raise NotSpecialized(found)
        return found

    def _producer_resources(
        self, consumers: int, needed: int, load_groups: Sequence[LoadGroup], *, ping_pong: bool = False
    ) -> tuple[int, tuple[int, int] | None]:
        """Threads of the producer, and registers per thread of consumers and producer if they differ from the launch's.

        Args:
            consumers: Consumer warpgroups.
            needed: Registers of a consumer's thread for tiles.
            load_groups: The loads of the producer.
            ping_pong: Whether consumers are in ping-pong.
        """
        if self._overrides.registers is not None:
            return WARPGROUP_THREADS, self._overrides.registers
        counts = any(group.counts_fills(self._launch) or group.backward_slice().statements for group in load_groups)
        blocks, machine = self._blocks_per_sm, self._target.machine
        return producer_and_registers(
            self._launch, consumers, needed, machine, blocks, counts=counts, ping_pong=ping_pong
        )


def _uses_of_shared_memory(schedule: Schedule) -> tuple[int, ...]:
    """What second versions of computed tiles must not take from others where they save a wait alone."""
    return schedule.stages, schedule.outer_stages, schedule.epilogue_parts, schedule.staged_additions
