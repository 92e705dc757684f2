"""Gives threads of a block roles: one of them brings tiles by the copy engine, whole warpgroups of others compute.

Takes a tile-level function as `choose_schedule` and `persist_grid` leave it. A launch with a schedule becomes two
groups of threads that only barriers connect: rings of versions that the producer fills and the consumers give back,
across loops and across the tiles of a persistent block. Invariant: each role does its part in the order of the program,
so that neither waits for what comes later; and the program computes the same.

    barriers of all rings, made ready by one thread, seen by all
    producer, one thread:   for each use of a ring: wait until empty; announce the bytes; copies
    consumers, together:    ...; wait until full; what reads it; ...; one thread of each warpgroup gives it back; ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.arith.domain import of_function
from tilelang.dtypes import BOOL, INT32, SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, CallStmt, For, Group, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk, without
from tilelang.lowering.lowering import Lowerings
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.gpu.isa.warp import ELECT
from tilelang.targets.nvidia.isa.cluster import CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.mbarrier import FENCE_MBARRIER_INIT, MBARRIER_INIT
from tilelang.targets.nvidia.isa.registers import set_max_registers
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.passes.roles.abilities import Roles, roles_of
from tilelang.targets.nvidia.passes.roles.channels import Channel, channel
from tilelang.targets.nvidia.passes.roles.epilogue import Exit, Leave, awaited, in_parts
from tilelang.targets.nvidia.passes.roles.multicast import members_of
from tilelang.targets.nvidia.passes.roles.ping_pong import Turns, turns_of
from tilelang.targets.nvidia.passes.roles.rings import flat
from tilelang.targets.nvidia.passes.roles.split import consumer, producer
from tilelang.targets.nvidia.passes.roles.zeroing import products_begin_sums
from tilelang.targets.nvidia.schedule import Schedule, schedule_of

_ALL_LANES = const(2**WARP_SIZE - 1, SCALARS["uint32"])
# All threads of a cluster; a fence stands before it where others have to see what was done
_MEETING = (CallStmt(CLUSTER_ARRIVE_RELAXED, ()), CallStmt(CLUSTER_WAIT, ()))


def specialize_warps(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        body = _Launches(func, roles_of(func, lowerings, context)).visit(func.body) or Seq((), loc=func.body.loc)
        return func if body is func.body else dataclasses.replace(func, body=body)

    return Pass(
        "specialize_warps", run, Level.TILE, Level.TILE,
        requires=(
            Property.SCHEDULE_CHOSEN,
            Property.PERSISTENT_LOOPS,
            Property.REDUCTION_SPLIT,
            Property.OPERATORS_WHOLE,
        ),
        establishes=(Property.WARPS_SPECIALIZED,),
        invalidates=(Property.BARRIERS_AS_WRITTEN,),
    )


class _Launches(Rewriter):
    def __init__(self, func: PrimFunc, roles: Roles) -> None:
        self._domain, self._roles = of_function(func), roles

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        schedule = schedule_of(node)
        if schedule is None:
            return node
        return specialized(products_begin_sums(flat(node), self._domain), schedule, self._roles)


def specialized(launch: Launch, schedule: Schedule, roles: Roles) -> Launch:
    """A flat launch with its threads in roles."""
    thread = Var("thread", INT32, index=True) if launch.thread is None else launch.thread
    names = [s for s in walk(launch.body) if isinstance(s, Alloc) and _names_a_tensor(s.buffer)]
    launch = dataclasses.replace(launch, body=without(launch.body, set(names)))
    added = [s for s in walk(launch.body) if isinstance(s, ClusterSum)]
    launch = _without_allocs(launch, {buffer for each in added for buffer in (each.parts.buffer, each.barrier.buffer)})
    exits = roles.exits(launch, schedule.tile_threads) if schedule.staged else ()
    exits = tuple(in_parts(made, schedule.staged) for made in exits)
    if exits:
        body = Leave(exits, apart=int(schedule.persistent)).visit(launch.body) or Seq((), loc=launch.loc)
        launch = dataclasses.replace(launch, body=body)
    members = members_of(launch, schedule)
    channels = [
        channel(ring, schedule, members, by_warpgroup=roles.read_by_warpgroups(ring, schedule.tile_threads))
        for ring in roles.rings(launch).found
    ]
    turns = _turns(launch) if schedule.ping_pong else ()
    body = Seq(
        (
            *names,
            *_barriers(channels, turns, added, schedule, thread),
            *(Alloc(tile, loc=tile.loc) for each in channels for tile in each.tiles.values()),
            *(Alloc(each.parts.buffer, loc=each.loc) for each in added),
            _bringing(producer(launch.body, channels, members), schedule, thread),
            *(
                _computing(_program(launch, channels, exits, schedule, each, thread), schedule, number, thread)
                for number, each in enumerate(turns or (None,))
            ),
            # before a block ends whose barriers others still signal; those that add up wait for what they send
            *(_MEETING if any(each.crosses for each in channels) else ()),
        ),
        loc=launch.body.loc,
    )
    replaced = {old: new for each in channels for old, new in each.tiles.items()}
    layouts = tuple((replaced.get(buffer, buffer), layout) for buffer, layout in launch.hints.layouts)
    versions = tuple((new, each.versions) for each in channels for old, new in each.tiles.items() if new is not old)
    blocks = launch.hints.min_blocks_per_sm if schedule.registers is None else 1
    return dataclasses.replace(
        launch,
        threads=(schedule.threads, 1, 1),
        thread=thread,
        body=body,
        hints=dataclasses.replace(launch.hints, layouts=layouts, min_blocks_per_sm=blocks),
        plan=dataclasses.replace(launch.plan, versions=(*launch.plan.versions, *versions)),
    )


def _names_a_tensor(buffer: Buffer) -> bool:
    """Whether a buffer is another name of a parameter or workspace, which all roles may use."""
    return buffer.scope is Scope.GLOBAL and buffer.view_of is not None and buffer.storage.address is None


def _without_allocs(launch: Launch, buffers: set[Buffer]) -> Launch:
    """The launch without the allocations of buffers that are wanted before its threads have roles."""
    body = launch.body.body if isinstance(launch.body, Seq) else (launch.body,)
    kept = tuple(s for s in body if not (isinstance(s, Alloc) and s.buffer in buffers))
    return dataclasses.replace(launch, body=Seq(kept, loc=launch.body.loc))


def _turns(launch: Launch) -> tuple[Turns, ...]:
    """The turns of warpgroups with the tiles of a persistent block."""
    (tiles,) = launch.body.body if isinstance(launch.body, Seq) else (launch.body,)
    if not isinstance(tiles, For):
        raise CompilerBug("specialize_warps: warpgroups take turns with tiles, but there is no loop over them")
    return turns_of(tiles)


def _barriers(
    channels: Sequence[Channel], turns: Sequence[Turns], added: Sequence[ClusterSum], schedule: Schedule, thread: Expr
) -> list[Stmt]:
    """Allocates the barriers and makes them ready for all that use them: threads, the copy engine, other blocks."""
    made = [barriers for each in channels for barriers in (each.full, each.empty) if barriers is not None]
    inits = [init for each in channels for init in each.inits(schedule)]
    for order in turns[:1]:
        made.append(order.barriers)
        inits += order.inits()
    for each_sum in added:
        made.append(each_sum.barrier.buffer)
        inits.append(CallStmt(MBARRIER_INIT, (each_sum.barrier, const(1, INT32))))
    fences = [CallStmt(FENCE_MBARRIER_INIT, ()), CallStmt(FENCE_PROXY_ASYNC, ())]
    return [
        *(Alloc(barriers) for barriers in made),
        If(thread == 0, Seq((*inits, *fences))),
        *(_MEETING if added or any(each.senders for each in channels) else (CallStmt(SYNC_THREADS, ()),)),
    ]


def _bringing(body: Stmt, schedule: Schedule, thread: Expr) -> Stmt:
    """What the producer's threads do: all but one of them nothing."""
    first, count = schedule.consumer_threads, schedule.producer_threads
    elected = Var("elected", BOOL)
    alone = If(elected, body, group=Group(first, 1, collective=True, among=WARP_SIZE))
    inner: tuple[Stmt, ...] = (CallStmt(ELECT, (_ALL_LANES,), result=elected), alone)
    if count > WARP_SIZE:
        warp = Group(first, WARP_SIZE, collective=True)
        inner = (If(warp.condition(thread), Seq(inner), group=warp),)
    if schedule.registers is not None:
        inner = (CallStmt(set_max_registers(schedule.registers[1], False), ()), *inner)
    group = Group(first, count, collective=True)
    return If(group.condition(thread), Seq(inner), group=group)


def _program(
    launch: Launch,
    channels: Sequence[Channel],
    exits: Sequence[Exit],
    schedule: Schedule,
    turns: Turns | None,
    thread: Expr,
) -> Stmt:
    """The program of those who compute, with the tiles through which results leave."""
    body = [
        *(Alloc(made.staging, loc=made.copy.loc) for made in exits),
        consumer(launch.body, channels, thread, schedule.in_flight, turns),
        *(awaited(made.copy) for made in exits[-1:]),
    ]
    program = Seq(tuple(body), loc=launch.body.loc)
    return program if turns is None else turns.own_program(program)


def _computing(program: Stmt, schedule: Schedule, number: int, thread: Expr) -> Stmt:
    """What a group of consumers does, as if the block had no other threads."""
    group = Group(number * schedule.tile_threads, schedule.tile_threads, collective=True)
    if schedule.registers is not None:
        program = Seq((CallStmt(set_max_registers(schedule.registers[0], True), ()), program), loc=program.loc)
    return If(group.condition(thread), program, group=group)
