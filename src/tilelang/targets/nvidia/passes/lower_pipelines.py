"""Lowers pipelines and partitions to mbarriers, named barriers, an elected thread and setmaxnreg.

Takes a tile-level function as `specialize_warps` leaves it, with lowerings and layouts; gives one without statements on
pipelines. Invariant: a wait returns when what it waits for has happened in every execution of the statements.

A full barrier counts one arrival, which announces the bytes of copies, and these bytes. An empty barrier counts the
arrivals of readers: one for each warpgroup if only wgmma reads the tiles, since that completes for all four warps at
once, otherwise one for each warp after a barrier of its lanes, since arrivals of lanes would follow one another. Where
no wgmma has read the tiles, a barrier of the warpgroup stands before the arrival: all four warps must have seen that
the stage was full before it can be filled again.

Where blocks of a cluster load by multicast, one thread of a warpgroup arrives at the empty barrier of each block that
writes to its tiles: a barrier then counts the readers in all blocks that its own block writes to.

Order barriers with barriers in memory are mbarriers with one arrival each. Those without are named barriers, numbered
below those of warpgroups, which are numbered below those that `NamedBarriers` assigns: a group waits at its own, where
the one before it arrives. Stores of the epilogue are bulk groups of the thread that issues them, for which it waits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Set

from tilelang.arith.domain import Domain, of_function
from tilelang.dtypes import BOOL, INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, Var, const, select
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.pipeline import (
    Acquire,
    Commit,
    InitPipelines,
    OrderArrive,
    OrderBarrier,
    OrderWait,
    Pipeline,
    PipelineStmt,
    Release,
    ReleaseTo,
    StoreWait,
    Wait,
)
from tilelang.ir.sequences import statements_of, with_location, with_statements
from tilelang.ir.stmt import Bind, CallStmt, Group, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.ops.copy import Copy
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.schedule.unread_stages import unread_releases
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP
from tilelang.targets.gpu.isa.warp import ELECT
from tilelang.targets.nvidia.isa.cache_policy import NORMAL, l2_policy
from tilelang.targets.nvidia.isa.cluster import CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT, mbarrier_arrive_remote
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.mbarrier import (
    FENCE_MBARRIER_INIT,
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_WAIT,
)
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC
from tilelang.targets.nvidia.isa.registers import set_max_registers
from tilelang.targets.nvidia.isa.tma import tma_store_wait
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule, schedule_of

_ALL_LANES = const(2**WARP_SIZE - 1, SCALARS["uint32"])
_FIRST = 1  # named barrier of the first group; barrier 0 is that of all threads, those of warpgroups come behind groups
# A barrier of all threads of a cluster, without memory ordering: fences stand before it where that is needed
_CLUSTER_SYNC = (CallStmt(CLUSTER_ARRIVE_RELAXED, ()), CallStmt(CLUSTER_WAIT, ()))


def lower_pipelines(launch: Launch, domain: Domain) -> Launch:
    """The launch with barriers in place of pipelines, if its warps are specialized; `domain` holds outside of it."""
    schedule = schedule_of(launch)
    if schedule is None:
        return launch
    assert launch.thread is not None
    unread = unread_releases(launch.body, domain.with_extents(launch.block_vars, launch.grid))
    lower = _Lower(launch.thread, schedule, unread)
    body = lower.visit(launch.body) or Seq((), loc=launch.body.loc)
    if any(isinstance(s, ReleaseTo) for s in walk(launch.body)):
        # a block must not end while others still signal its barriers; a cluster sum waits by itself
        body = Seq((*statements_of(body), *_CLUSTER_SYNC), loc=body.loc)
    return dataclasses.replace(launch, body=body)


class _Lower(Rewriter):
    def __init__(self, thread: Expr, schedule: Schedule, unread: Set[Stmt]) -> None:
        self._thread, self._schedule, self._unread = thread, schedule, unread
        self._senders: dict[Pipeline, tuple[Var, int]] = {}  # the block at whose barrier a thread arrives; how many

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq):
            return with_statements(node, [part for child in node.body for part in self._parts(child)])
        return as_body(list(self._parts(node)), node.loc)

    def _parts(self, node: Stmt) -> Iterator[Stmt]:
        """What stands for a statement in a sequence."""
        if isinstance(node, PipelineStmt):
            yield from (with_location(part, node.loc) for part in self._lowered(node))
        elif isinstance(node, If) and node.group is not None:
            yield from self._partition(node, node.group)
        elif (rebuilt := self.visit(node) if isinstance(node, Seq) else self.rebuild_stmt(node)) is not None:
            yield rebuilt

    def _lowered(self, node: PipelineStmt) -> Iterator[Stmt]:
        match node:
            case InitPipelines():
                yield from self._init(node)
            case Acquire(pipeline=each, index=index, phase=phase):
                if each.empty is not None:
                    yield CallStmt(MBARRIER_WAIT, (_at(each.empty, index), 1 - phase))
                if each.bytes:
                    yield CallStmt(MBARRIER_ARRIVE_EXPECT_TX, (_at(each.full, index), const(each.bytes, INT32)))
            case Commit(pipeline=each, index=index):
                if not each.bytes:
                    yield CallStmt(MBARRIER_ARRIVE, (_at(each.full, index),))
            case Wait(pipeline=each, index=index, phase=phase):
                yield CallStmt(MBARRIER_WAIT, (_at(each.full, index), phase))
            case ReleaseTo(pipeline=each, blocks=blocks):
                sender = Var("sender", INT32)
                self._senders[each] = sender, len(blocks)
                yield Bind(sender, select_by_thread(blocks, self._thread))
            case Release(pipeline=each, index=index):
                if node in self._unread and (each.only_mma_reads or each in self._senders):
                    yield self._warpgroup_barrier()
                yield from self._release(each, index)
            case OrderWait(order=order, member=member, phase=phase):
                yield self._order_wait(order, member, phase)
            case OrderArrive(order=order, member=member):
                yield self._order_arrive(order, member)
            case StoreWait(read=read):
                yield CallStmt(tma_store_wait(0, read=read), ())

    # -- pipelines ------------------------------------------------------------------------------------------
    def _init(self, node: InitPipelines) -> Iterator[Stmt]:
        """Initializes barriers, visible to all threads, the async proxy and other blocks."""
        counts = [pair for each in node.pipelines for pair in _counts(each)]
        for order in node.orders:
            if order.barriers is not None:
                counts += [(_at(order.barriers, const(number, INT32)), 1) for number in range(order.groups)]
        counts += [(barrier, 1) for barrier in node.counted]
        inits = [CallStmt(MBARRIER_INIT, (barrier, const(count, INT32))) for barrier, count in counts]
        fences = (CallStmt(FENCE_MBARRIER_INIT, ()), CallStmt(FENCE_PROXY_ASYNC, ()))
        yield If(self._thread == 0, Seq((*inits, *fences)))
        crosses_blocks = node.counted or any(each.blocks > 1 for each in node.pipelines)
        yield from _CLUSTER_SYNC if crosses_blocks else (CallStmt(SYNC_THREADS, ()),)

    def _release(self, each: Pipeline, index: Expr) -> Iterator[Stmt]:
        assert each.empty is not None  # by `verify_pipelines`
        barrier = _at(each.empty, index)
        arrive = CallStmt(MBARRIER_ARRIVE, (barrier,))
        if each in self._senders:
            sender, count = self._senders[each]
            remote = CallStmt(mbarrier_arrive_remote(), (barrier, sender))
            yield If(self._thread % WARPGROUP_THREADS < count, remote)
        elif each.only_mma_reads:
            yield If(self._thread % WARPGROUP_THREADS == 0, arrive)
        else:
            yield CallStmt(SYNC_WARP, (_ALL_LANES,))
            yield If(self._thread % WARP_SIZE == 0, arrive)

    def _warpgroup_barrier(self) -> Stmt:
        number = _FIRST + self._schedule.consumers + self._thread // WARPGROUP_THREADS
        return CallStmt(BAR_SYNC, (number, const(WARPGROUP_THREADS, INT32)))

    # -- order barriers -------------------------------------------------------------------------------------
    def _order_wait(self, order: OrderBarrier, member: int | None, phase: Expr | None) -> Stmt:
        if order.barriers is not None:
            assert member is not None
            assert phase is not None
            return CallStmt(MBARRIER_WAIT, (_at(order.barriers, const(member, INT32)), phase))
        number = _FIRST + self._thread // order.threads if member is None else const(_FIRST + member, INT32)
        return CallStmt(BAR_SYNC, (number, _threads(order)))

    def _order_arrive(self, order: OrderBarrier, member: int | None) -> Stmt:
        if order.barriers is not None:
            assert member is not None
            barrier = _at(order.barriers, const((member + 1) % order.groups, INT32))
            return If(self._thread % order.threads == 0, CallStmt(MBARRIER_ARRIVE, (barrier,)))
        if member is not None:
            following: Expr = const(_FIRST + (member + 1) % order.groups, INT32)
        else:
            is_last = self._thread >= (order.groups - 1) * order.threads
            following = select(is_last, const(_FIRST, INT32), _FIRST + 1 + self._thread // order.threads)
        return CallStmt(BAR_ARRIVE, (following, _threads(order)))

    # -- partitions -----------------------------------------------------------------------------------------
    def _partition(self, node: If, group: Group) -> Iterator[Stmt]:
        """The branch of a partition, with as many registers as the schedule gives it; one thread of it is elected."""
        schedule, body = self._schedule, self.visit(node.then_body) or Seq((), loc=node.then_body.loc)
        if group.among == WARP_SIZE:
            elected = Var("elected", BOOL)
            yield CallStmt(ELECT, (_ALL_LANES,), result=elected)
            yield dataclasses.replace(node, condition=elected, then_body=_with_cache_policies(body))
            return
        is_producer = group.first == schedule.consumer_threads
        if is_producer and group.count > WARP_SIZE:
            warp = Group(group.first, WARP_SIZE, collective=True)
            body = If(warp.condition(self._thread), body, group=warp)
        if schedule.registers is not None and group.collective:
            consumers, producer = schedule.registers
            move = set_max_registers(producer if is_producer else consumers, not is_producer)
            body = Seq((CallStmt(move, ()), body), loc=body.loc)
        yield dataclasses.replace(node, then_body=body)


def _counts(each: Pipeline) -> Iterator[tuple[Region, int]]:
    """The barriers of a pipeline, and the arrivals that complete a phase of each."""
    arrivals = each.readers // (WARPGROUP_THREADS if each.only_mma_reads else WARP_SIZE)
    arrivals *= each.blocks  # as many blocks write to this one as it writes to
    for barriers, count in ((each.full, 1), (each.empty, arrivals)):
        if barriers is not None:
            yield from ((_at(barriers, const(number, INT32)), count) for number in range(each.stages))


def select_by_thread(numbers: tuple[Expr, ...], thread: Expr) -> Expr:
    """Number i for thread i of a warpgroup; the last one for all further threads."""
    chosen = numbers[-1]
    for lane in reversed(range(len(numbers) - 1)):
        chosen = select(thread % WARPGROUP_THREADS == lane, numbers[lane], chosen)
    return chosen


class _WithCachePolicies(Rewriter):
    """Gives the copies of a producer the cache policies of the machine, each created once."""

    def __init__(self) -> None:
        self.policies: dict[str, Var] = {}

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Copy):
            return self.rebuild_stmt(node)
        if node.eviction is None or node.eviction == NORMAL:
            return node
        policy = self.policies.setdefault(node.eviction, Var(node.eviction, SCALARS["uint64"]))
        return dataclasses.replace(node, cache_policy=policy)


def _with_cache_policies(body: Stmt) -> Stmt:
    rewriter = _WithCachePolicies()
    made = rewriter.visit(body) or body
    policies = [CallStmt(l2_policy(kind), (), result=var) for kind, var in rewriter.policies.items()]
    return Seq((*policies, *statements_of(made)), loc=made.loc) if policies else made


def _threads(order: OrderBarrier) -> Expr:
    """The threads of a named barrier: a group waits, the one before it arrives."""
    return const(2 * order.threads, INT32)


def _at(barriers: Buffer, index: Expr) -> Region:
    return Region(barriers, (index,), (const(1, INT32),))


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    domain = of_function(func)
    return with_launches(func, lambda launch: lower_pipelines(launch, domain))


PASS = Pass(
    "lower_pipelines", _run, Level.TILE, Level.TILE,
    requires=(Property.WARPS_SPECIALIZED, Property.LAYOUTS_INFERRED),
)
