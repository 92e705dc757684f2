"""Specializes the warps of a block: a producer warp loads tiles by TMA, consumer warpgroups compute.

Takes a tile-level function after `choose_schedule` and `persist_grid`. A launch with a schedule becomes a
producer and consumers that synchronize only through the full and empty barriers of their pipelines, across loops and
across the tiles of a persistent block. Invariant: each partition runs its part in program order, so that neither waits
for what comes later; and the program computes the same.

    initialize the barriers of all pipelines by one thread; fence; __syncthreads
    producer, one thread:   for each fill: wait until the stage is empty; announce the bytes; copies
    consumers:              ...; wait until the stage is full; readers; ...; arrive at its empty barrier; ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tilelang.analysis.uniform_scalars import UniformScalars
from tilelang.arith.domain import Domain, of_function
from tilelang.dtypes import BOOL, INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, CallStmt, For, Group, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk, without
from tilelang.lowering.lowering import Lowerings
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property
from tilelang.schedule.computed_tiles import (
    VERSIONS,
    doubled_tiles,
)
from tilelang.schedule.consumer_loops import asynchronous_gemms, consumer_body
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.schedule.modulo import ModuloSchedule
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.gpu.isa.warp import ELECT
from tilelang.targets.nvidia.isa.cluster import CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.mbarrier import FENCE_MBARRIER_INIT, MBARRIER_INIT
from tilelang.targets.nvidia.isa.registers import set_max_registers
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities, target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.epilogue import (
    EpilogueStore,
    StageEpilogue,
    split_into_parts,
    store_wait,
)
from tilelang.targets.nvidia.passes.warp_specialization.issue_order import IssueOrder
from tilelang.targets.nvidia.passes.warp_specialization.multicast import cluster_blocks
from tilelang.targets.nvidia.passes.warp_specialization.partitions import consumer, producer
from tilelang.targets.nvidia.passes.warp_specialization.ping_pong import OrderBarrier, order_barriers
from tilelang.targets.nvidia.passes.warp_specialization.pipeline_buffers import (
    ALL_LANES,
    PipelineBuffer,
    pipeline_buffer,
)
from tilelang.targets.nvidia.passes.warp_specialization.software_pipeline import SoftwarePipeline, carries
from tilelang.targets.nvidia.passes.warp_specialization.tile_scheduler import TileScheduler, tile_scheduler
from tilelang.targets.nvidia.schedule import Schedule, schedule_of
from tilelang.transforms.fuse_clears import fuse_clears
from tilelang.transforms.split_masks import has_masks

# A barrier of all threads of a cluster, without memory ordering: fences stand before it where that is needed
_CLUSTER_SYNC = (CallStmt(CLUSTER_ARRIVE_RELAXED, ()), CallStmt(CLUSTER_WAIT, ()))


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
    stores = tuple(
        split_into_parts(each, schedule.epilogue_parts)
        for each in capabilities.epilogue_stores(launch, schedule.tile_threads, int(schedule.persistent))
        if (schedule.staged_additions if each.adds and each.pipelined else schedule.epilogue_parts)
    )
    loops = [stmt for stmt in walk(launch.body) if isinstance(stmt, For)]
    pipelined = {loop for loop in loops if loop.var in dict(schedule.loops)}
    stage = StageEpilogue(stores, int(schedule.persistent), pipelined)
    if stores:
        launch = dataclasses.replace(launch, body=stage.visit(launch.body) or Seq((), loc=launch.loc))
    cluster, tile_threads = cluster_blocks(launch, schedule), schedule.tile_threads
    pipelines = [
        pipeline_buffer(group, schedule, cluster, wgmma_only=capabilities.only_read_by_wgmma(group, tile_threads))
        for group in capabilities.load_groups(launch).found
    ]
    orders: tuple[OrderBarrier, ...] = _order_barriers(launch) if schedule.ping_pong else ()
    domain = domain.with_extents(launch.block_vars, launch.grid)
    is_uniform = UniformScalars(launch).is_uniform
    software_pipelines = [
        dataclasses.replace(each, masks=has_masks(each.loop, domain, is_uniform))
        for each in _software_pipelines(pipelined, schedule, pipelines, stage, capabilities, thread)
    ]
    if schedule.mma_in_flight:
        software_pipelines += _carrying_loops(loops, pipelines)
    computed = {old: new for each in software_pipelines for old, new in each.computed.items()}
    scheduler = tile_scheduler(launch, schedule)
    programs = [
        _consumer_program(launch, pipelines, software_pipelines, stores, order, scheduler, thread)
        for order in orders or (None,)
    ]
    body = Seq(
        (
            *views,
            *_barriers(pipelines, orders, cluster_sums, scheduler, schedule, thread),
            *(Alloc(tile, loc=tile.loc) for each in pipelines for tile in each.tiles.values()),
            *(Alloc(each.parts.buffer, loc=each.loc) for each in cluster_sums),
            *(Alloc(tile, loc=tile.loc) for tile in computed.values()),
            _producer_branch(producer(launch.body, pipelines, cluster, scheduler), schedule, thread),
            *(
                _consumer_branch(program, schedule, number, thread)
                for number, program in enumerate(programs)
            ),
            # a block must not end while others still signal its barriers; a cluster sum waits by itself
            *(_CLUSTER_SYNC if any(each.signals_cluster for each in pipelines) else ()),
        ),
        loc=launch.body.loc,
    )
    replaced = {**computed, **{old: new for each in pipelines for old, new in each.tiles.items()}}
    layouts = tuple((replaced.get(buffer, buffer), layout) for buffer, layout in launch.hints.layouts)
    versions = [(new, each.versions) for each in pipelines for old, new in each.tiles.items() if new is not old]
    versions += [(tile, VERSIONS) for tile in computed.values()]
    blocks = launch.hints.min_blocks_per_sm if schedule.registers is None else 1
    blocks = schedule.blocks_per_sm if schedule.blocks_per_sm > 1 else blocks
    launch = dataclasses.replace(
        launch,
        threads=(schedule.threads, 1, 1),
        thread=thread,
        body=body,
        hints=dataclasses.replace(launch.hints, layouts=layouts, min_blocks_per_sm=blocks),
        plan=dataclasses.replace(launch.plan, versions=(*launch.plan.versions, *versions)),
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
    order = IssueOrder(schedule.consumers, thread) if schedule.ordered_issue else None
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


def _carrying_loops(loops: Iterable[For], pipelines: Sequence[PipelineBuffer]) -> list[SoftwarePipeline]:
    """The loops that are one gemm, which is in flight until that of the next iteration has been issued."""
    made = []
    for loop in loops:
        mine = tuple(each for each in pipelines if each.load_group.parent is loop.body)
        if carries(loop, mine):
            body = consumer_body(loop, [each.load_group for each in mine])
            alone = ModuloSchedule((0,), (0,), 0)
            made.append(SoftwarePipeline(loop, body, alone, mine, frozenset(body.statements), carries=True))
    return made


def _is_tensor_view(buffer: Buffer) -> bool:
    """Whether a buffer is a view of a parameter or workspace, which all partitions may use."""
    return buffer.scope is Scope.GLOBAL and buffer.view_of is not None and buffer.storage.address is None


def _without_allocs(launch: Launch, buffers: set[Buffer]) -> Launch:
    """The launch without the allocations of buffers that are to stand before its partitions."""
    body = statements_of(launch.body)
    kept = tuple(s for s in body if not (isinstance(s, Alloc) and s.buffer in buffers))
    return dataclasses.replace(launch, body=Seq(kept, loc=launch.body.loc))


def _order_barriers(launch: Launch) -> tuple[OrderBarrier, ...]:
    """The order barriers of ping-pong warpgroups in a persistent block."""
    (tiles,) = statements_of(launch.body)
    if not isinstance(tiles, For):
        raise CompilerBug("specialize_warps: ping-pong without a loop over tiles")
    return order_barriers(tiles)


def _barriers(
    pipelines: Sequence[PipelineBuffer],
    orders: Sequence[OrderBarrier],
    cluster_sums: Sequence[ClusterSum],
    scheduler: TileScheduler | None,
    schedule: Schedule,
    thread: Expr,
) -> list[Stmt]:
    """Allocates and initializes the barriers, visible to all threads, the async proxy and other blocks."""
    allocated = [barriers for each in pipelines for barriers in (each.full, each.empty) if barriers is not None]
    inits = [init for each in pipelines for init in each.barrier_inits(schedule)]
    for order in orders[:1]:
        allocated.append(order.barriers)
        inits += order.barrier_inits()
    for each_sum in cluster_sums:
        allocated.append(each_sum.barrier.buffer)
        inits.append(CallStmt(MBARRIER_INIT, (each_sum.barrier, const(1, INT32))))
    if scheduler is not None:
        allocated += [scheduler.full, scheduler.empty, scheduler.slots]
        inits += scheduler.barrier_inits()
    fences = [CallStmt(FENCE_MBARRIER_INIT, ()), CallStmt(FENCE_PROXY_ASYNC, ())]
    return [
        *(Alloc(barriers) for barriers in allocated),
        If(thread == 0, Seq((*inits, *fences))),
        *(_CLUSTER_SYNC if cluster_sums or any(each.senders for each in pipelines) else (CallStmt(SYNC_THREADS, ()),)),
    ]


def _producer_branch(body: Stmt, schedule: Schedule, thread: Expr) -> Stmt:
    """The branch of the producer's threads, of which one issues the copies."""
    first, count = schedule.consumer_threads, schedule.producer_threads
    elected = Var("elected", BOOL)
    issue = If(elected, body, group=Group(first, 1, collective=True, among=WARP_SIZE))
    inner: tuple[Stmt, ...] = (CallStmt(ELECT, (ALL_LANES,), result=elected), issue)
    if count > WARP_SIZE:
        warp = Group(first, WARP_SIZE, collective=True)
        inner = (If(warp.condition(thread), Seq(inner), group=warp),)
    if schedule.registers is not None:
        inner = (CallStmt(set_max_registers(schedule.registers[1], False), ()), *inner)
    group = Group(first, count, collective=True)
    return If(group.condition(thread), Seq(inner), group=group)


def _consumer_program(
    launch: Launch,
    pipelines: Sequence[PipelineBuffer],
    software_pipelines: Sequence[SoftwarePipeline],
    stores: Sequence[EpilogueStore],
    order: OrderBarrier | None,
    scheduler: TileScheduler | None,
    thread: Expr,
) -> Stmt:
    """The program of consumers, with the staging tiles of the epilogue."""
    issue_orders = [each.order for each in software_pipelines[:1] if each.order is not None]
    body = [
        *(Alloc(store.staging, loc=store.copy.loc) for store in stores),
        *(stmt for each in issue_orders for stmt in each.begin()),
        consumer(launch.body, pipelines, thread, order, software_pipelines, scheduler),
        *(stmt for each in issue_orders for stmt in each.end()),
        *(store_wait(store.copy) for store in stores[-1:]),
    ]
    program = Seq(tuple(body), loc=launch.body.loc)
    return program if order is None else order.warpgroup_program(program)


def _consumer_branch(program: Stmt, schedule: Schedule, number: int, thread: Expr) -> Stmt:
    """The branch of a group of consumers, in which threads are numbered from 0."""
    group = Group(number * schedule.tile_threads, schedule.tile_threads, collective=True)
    if schedule.registers is not None:
        program = Seq((CallStmt(set_max_registers(schedule.registers[0], True), ()), program), loc=program.loc)
    return If(group.condition(thread), program, group=group)
