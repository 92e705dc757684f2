"""Specializes the warps of a block: a producer loads tiles by the copy engine, groups of consumers compute.

Takes a tile-level function after `choose_schedule` and `persist_grid`. A launch with a schedule becomes a producer and
consumers that synchronize only through pipelines, across loops and across the tiles of a persistent block;
`lower_pipelines` writes their barriers. Invariant: each partition runs its part in program order, so that neither waits
for what comes later; and the program computes the same.

    initialize all pipelines
    producer, one thread:   for each fill: acquire; copies; commit
    consumers:              ...; wait; readers; ...; release; ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tilelang.analysis.divergence import divergence
from tilelang.arith.domain import Domain, of_function
from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug, Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.pipeline import InitPipelines, StoreWait
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, For, Group, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk, without
from tilelang.lowering.lowering import Lowerings
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property
from tilelang.schedule.alternate_tiles import AlternateTiles, alternate_tiles
from tilelang.schedule.computed_tiles import VERSIONS, doubled_tiles
from tilelang.schedule.consumer_loops import asynchronous_gemms, consumer_body
from tilelang.schedule.issue_order import issue_order
from tilelang.schedule.load_groups import by_tiles, flatten_sequences
from tilelang.schedule.multicast import cluster_blocks
from tilelang.schedule.partitions import consumer, producer
from tilelang.schedule.pipeline_buffers import PipelineBuffer, pipeline_buffers
from tilelang.schedule.software_pipeline import SoftwarePipeline
from tilelang.schedule.tile_scheduler import TileScheduler, tile_scheduler
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.passes.costs import rates_of
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities, target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.epilogue import (
    EpilogueStore,
    StageEpilogue,
    split_into_parts,
    stored_directly,
)
from tilelang.targets.nvidia.passes.warp_specialization.own_iterations import with_own_iterations
from tilelang.targets.nvidia.passes.warp_specialization.rotation import with_rotation
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule, schedule_of
from tilelang.transforms.fuse_clears import fuse_clears
from tilelang.transforms.split_masks import has_masks


def specialize_warps(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        capabilities = target_capabilities(func, lowerings, context)
        body = _Launches(func, capabilities).visit(func.body) or Seq((), loc=func.body.loc)
        return func if body is func.body else dataclasses.replace(func, body=body)

    return Pass(
        "specialize_warps", run, Level.TILE, Level.TILE,
        requires=(
            Property.SCHEDULE_CHOSEN,
            Property.PERSISTENT_LOOPS_INSERTED,
            Property.REDUCTION_SPLIT,
            Property.OPERATORS_UNEXPANDED,
        ),
        establishes=(Property.WARPS_SPECIALIZED,),
        invalidates=(Property.BARRIERS_AS_WRITTEN,),
    )


class _Launches(Rewriter):
    def __init__(self, func: PrimFunc, capabilities: TargetCapabilities) -> None:
        self._domain, self._capabilities = of_function(func), capabilities

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        schedule = schedule_of(node)
        if schedule is None:
            return node
        launch = fuse_clears(flatten_sequences(node), self._domain)
        return specialized(launch, schedule, self._capabilities, self._domain)


def specialized(launch: Launch, schedule: Schedule, capabilities: TargetCapabilities, domain: Domain) -> Stmt:
    """The warp-specialized launch, after what resets its tile scheduler; it comes from `flatten_sequences`."""
    thread = Var("thread", INT32, index=True) if launch.thread is None else launch.thread
    views = [s for s in walk(launch.body) if isinstance(s, Alloc) and _is_tensor_view(s.buffer)]
    launch = dataclasses.replace(launch, body=without(launch.body, set(views)))
    cluster_sums = [s for s in walk(launch.body) if isinstance(s, ClusterSum)]
    of_sums = {buffer for each in cluster_sums for buffer in (each.parts.buffer, each.barrier.buffer)}
    launch = _without_allocs(launch, of_sums)
    to_global = capabilities.epilogue_stores(launch, schedule.tile_threads, int(schedule.persistent))
    launch = launch if schedule.epilogue_parts else stored_directly(launch, to_global)
    stores = tuple(
        split_into_parts(each, schedule.epilogue_parts)
        for each in to_global
        if (schedule.staged_additions if each.adds and each.pipelined else schedule.epilogue_parts)
    )
    loops = [stmt for stmt in walk(launch.body) if isinstance(stmt, For)]
    pipelined = [loop for loop in loops if loop.var in dict(schedule.loops)]
    stage = StageEpilogue(stores, int(schedule.persistent), pipelined)
    if stores:
        launch = dataclasses.replace(launch, body=stage.visit(launch.body) or Seq((), loc=launch.loc))
    cluster = cluster_blocks(launch, schedule.cluster, persistent=schedule.persistent)
    partitions = Group(schedule.consumer_threads, schedule.producer_threads), Group(0, schedule.consumer_threads)
    multicast, tile_threads = dict(schedule.multicast), schedule.tile_threads
    pipelines = [
        each
        for same_tiles in by_tiles(capabilities.load_groups(launch).found)
        for each in pipeline_buffers(
            same_tiles,
            schedule.stages if any(group.pipelined for group in same_tiles) else schedule.outer_stages,
            partitions,
            tile_threads,
            only_mma_reads=all(capabilities.only_read_by_wgmma(group, tile_threads) for group in same_tiles),
            multicast=multicast,
            cluster=cluster,
        )
    ]
    filled = {old: (new, each.versions) for each in pipelines for old, new in each.tiles.items()}
    groups: tuple[AlternateTiles, ...] = _alternate_tiles(launch, pipelines) if schedule.ping_pong else ()
    domain = domain.with_extents(launch.block_vars, launch.grid)
    is_uniform = divergence(launch).is_uniform
    rates = rates_of(capabilities.context.target.machine)
    software_pipelines = [
        with_rotation(each, rates, masks=has_masks(each.loop, domain, is_uniform))
        for each in _software_pipelines(pipelined, schedule, pipelines, stage, capabilities, thread)
    ]
    if capabilities.context.options.fast_math and not schedule.ping_pong:
        software_pipelines = [
            with_own_iterations(each, schedule.consumers, domain, is_uniform) for each in software_pipelines
        ]
    computed = {old: new for each in software_pipelines for old, new in each.computed.items()}
    tiles = None if schedule.tile_order is None else schedule.tile_order.tiles
    scheduler = None if tiles is None else tile_scheduler(launch, tiles, partitions, WARP_SIZE)
    programs = [
        _consumer_program(launch, pipelines, software_pipelines, stores, group, scheduler)
        for group in groups or (None,)
    ]
    body = Seq(
        (
            *views,
            *_barriers(pipelines, groups, software_pipelines, cluster_sums, scheduler),
            *(Alloc(tile, loc=tile.loc) for tile, _ in filled.values()),
            *(Alloc(each.parts.buffer, loc=each.loc) for each in cluster_sums),
            *(Alloc(tile, loc=tile.loc) for tile in computed.values()),
            _producer_branch(producer(launch.body, pipelines, cluster, scheduler), schedule, thread),
            *(
                _consumer_branch(program, schedule, number, thread)
                for number, program in enumerate(programs)
            ),
        ),
        loc=launch.body.loc,
    )
    replaced = {**computed, **{old: new for old, (new, _) in filled.items()}}
    layouts = tuple((replaced.get(buffer, buffer), layout) for buffer, layout in launch.hints.layouts)
    versions = [(new, count) for old, (new, count) in filled.items() if new is not old]
    versions += [(tile, VERSIONS) for tile in computed.values()]
    left = [each.loop for each in software_pipelines if each.own_stop is not None]
    notes = [Note("a warpgroup leaves the loop where all scores of its rows are masked", loop.loc) for loop in left]
    blocks = launch.hints.min_blocks_per_sm if schedule.registers is None else 1
    blocks = schedule.blocks_per_sm if schedule.blocks_per_sm > 1 else blocks
    launch = dataclasses.replace(
        launch,
        threads=(schedule.threads, 1, 1),
        thread=thread,
        body=body,
        hints=dataclasses.replace(launch.hints, layouts=layouts, min_blocks_per_sm=blocks),
        plan=dataclasses.replace(
            launch.plan, versions=(*launch.plan.versions, *versions), notes=(*launch.plan.notes, *notes)
        ),
    )
    return launch if scheduler is None else Seq((*scheduler.reset(), launch), loc=launch.loc)


def _software_pipelines(
    loops: Iterable[For],
    schedule: Schedule,
    pipelines: Sequence[PipelineBuffer],
    stage: StageEpilogue,
    capabilities: TargetCapabilities,
    thread: Expr,
) -> list[SoftwarePipeline]:
    """The loops of consumers that the schedule pipelines."""
    software_pipelines = []
    order = issue_order(schedule.consumers, WARPGROUP_THREADS, thread) if schedule.ordered_issue else None
    schedules, speculations = dict(schedule.loops), dict(schedule.speculations)
    for loop in loops:
        mine = tuple(each for each in pipelines if each.load_group.parent is loop.body)
        body = consumer_body(loop, [each.load_group for each in mine])
        gemms = asynchronous_gemms(body, capabilities.wgmma_refusal, schedule.tile_threads)
        staged = {stmt: stmts for stmt in body.statements if (stmts := stage.staged(stmt)) is not None}
        found = doubled_tiles(body, schedules[loop.var], set(schedule.computed))
        pipeline = SoftwarePipeline(loop, body, schedules[loop.var], mine, gemms, staged, order, found)
        software_pipelines.append(dataclasses.replace(pipeline, speculation=speculations.get(loop.var)))
    return software_pipelines


def _is_tensor_view(buffer: Buffer) -> bool:
    """Whether a buffer is a view of a parameter or workspace, which all partitions may use."""
    return buffer.scope is Scope.GLOBAL and buffer.view_of is not None and buffer.storage.address is None


def _without_allocs(launch: Launch, buffers: set[Buffer]) -> Launch:
    """The launch without the allocations of buffers that are to stand before its partitions."""
    body = statements_of(launch.body)
    kept = tuple(s for s in body if not (isinstance(s, Alloc) and s.buffer in buffers))
    return dataclasses.replace(launch, body=Seq(kept, loc=launch.body.loc))


def _alternate_tiles(launch: Launch, pipelines: Sequence[PipelineBuffer]) -> tuple[AlternateTiles, ...]:
    """The two warpgroups of a persistent block that compute alternate tiles."""
    (tiles,) = statements_of(launch.body)
    if not isinstance(tiles, For):
        raise CompilerBug("specialize_warps: ping-pong without a loop over tiles")
    counted = any(each.load_group.fill_count().preceding is None for each in pipelines)
    return alternate_tiles(tiles, WARPGROUP_THREADS, counted=counted)


def _barriers(
    pipelines: Sequence[PipelineBuffer],
    groups: Sequence[AlternateTiles],
    software_pipelines: Sequence[SoftwarePipeline],
    cluster_sums: Sequence[ClusterSum],
    scheduler: TileScheduler | None,
) -> list[Stmt]:
    """Allocates and initializes what synchronizes the partitions."""
    found = list(dict.fromkeys(each.pipeline for each in pipelines))
    found += [] if scheduler is None else [scheduler.pipeline]
    orders = {group.order: None for group in groups}
    orders |= {each.order.order: None for each in software_pipelines if each.order is not None}
    init = InitPipelines(tuple(found), tuple(orders), tuple(each.barrier for each in cluster_sums))
    allocated = (*init.barriers, *(() if scheduler is None else (scheduler.slots,)))
    return [*map(Alloc, allocated), init]


def _producer_branch(body: Stmt, schedule: Schedule, thread: Expr) -> Stmt:
    """The branch of the producer's threads, of which one issues the copies."""
    first, count = schedule.consumer_threads, schedule.producer_threads
    issue = If(thread == first, body, group=Group(first, 1, collective=True, among=WARP_SIZE))
    group = Group(first, count, collective=True)
    return If(group.condition(thread), issue, group=group)


def _consumer_program(
    launch: Launch,
    pipelines: Sequence[PipelineBuffer],
    software_pipelines: Sequence[SoftwarePipeline],
    stores: Sequence[EpilogueStore],
    group: AlternateTiles | None,
    scheduler: TileScheduler | None,
) -> Stmt:
    """The program of consumers, with the staging tiles of the epilogue."""
    issue_orders = [each.order for each in software_pipelines[:1] if each.order is not None]
    body = [
        *(Alloc(store.staging, loc=store.copy.loc) for store in stores),
        *(stmt for each in issue_orders for stmt in each.begin()),
        consumer(launch.body, pipelines, group, software_pipelines, scheduler),
        *(stmt for each in issue_orders for stmt in each.end()),
        *(StoreWait(True, loc=store.copy.loc) for store in stores[-1:]),
    ]
    program = Seq(tuple(body), loc=launch.body.loc)
    return program if group is None else group.group_program(program)


def _consumer_branch(program: Stmt, schedule: Schedule, number: int, thread: Expr) -> Stmt:
    """The branch of a group of consumers, in which threads are numbered from 0."""
    group = Group(number * schedule.tile_threads, schedule.tile_threads, collective=True)
    return If(group.condition(thread), program, group=group)
