"""Faults of mbarriers, named barriers and proxy fences: parities, byte counts, wrong_arrival_count, stages of pipelines, fences."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from edits import (
    ARRIVALS,
    Drop,
    calls,
    contain_call,
    is_load,
    names_barrier,
    reordered,
    with_argument,
    with_offset,
    with_smaller_modulus,
)
from seeded import Change, Swap

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Binary, Cast, Select, Var, as_expr, binary, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, CallStmt, If, Launch, Seq, Stmt, Store
from tilelang.ir.visit import walk
from tilelang.targets.nvidia.isa.async_units import TMA_LOAD, TMA_STORE
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.mbarrier import (
    FENCE_MBARRIER_INIT,
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_WAIT,
)
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC, BAR_SYNC_OR
from tilelang.targets.nvidia.isa.wgmma import wgmma_wait
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.passes.loads_first import loads, stores

WGMMA_WAITS = [wgmma_wait(n) for n in range(4)]


def scalar_not_assigned(node: Stmt) -> Iterator[Stmt | None]:
    """An assignment of a mutable scalar is missing."""
    if isinstance(node, Store) and node.buffer.scope is Scope.VAR:
        yield None


def wrong_parity(node: Stmt) -> Iterator[Stmt | None]:
    """A wait for the other phase."""
    if calls(node, MBARRIER_WAIT):
        yield with_argument(node, 1, 1 - node.args[1])


def wrong_expected_bytes(by: int) -> Change:
    """The expected bytes are too many or too few."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        if calls(node, MBARRIER_ARRIVE_EXPECT_TX):
            yield with_offset(node, 1, by)

    return change


def no_expected_bytes(node: Stmt) -> Iterator[Stmt | None]:
    """The producer arrives without expecting bytes."""
    if calls(node, MBARRIER_ARRIVE_EXPECT_TX):
        yield dataclasses.replace(node, routine=MBARRIER_ARRIVE, args=node.args[:1])


def wait_after_load(node: Stmt) -> Iterator[Stmt | None]:
    """The producer waits for an empty stage after its first load."""
    if isinstance(node, Seq):
        places = [i for i, s in enumerate(node.body) if calls(s, MBARRIER_WAIT)]
        loads = [i for i, s in enumerate(node.body) if isinstance(s, CallStmt) and is_load(s)]
        for place in places:
            after = [i for i in loads if i > place]
            if after and after[0] == place + 2:  # arrive.expect_tx is between them
                yield reordered(node, place, after[0])


def wait_for_launches_behind_access(node: Stmt) -> Iterator[Stmt | None]:
    """Threads wait for the launches in front behind the first statement that accesses global memory."""
    if isinstance(node, Seq) and node.body and calls(node.body[0], GRID_DEPENDENCY_WAIT):
        first = next(i for i, part in enumerate(node.body) if any(map(_accesses_global, walk(part))))
        yield reordered(node, 0, first)


def _accesses_global(stmt: Stmt) -> bool:
    return loads(stmt) or stores(stmt) or isinstance(stmt, CallStmt) and is_load(stmt)


def wrong_arrival_count(way: int) -> Change:
    """A phase counts more wrong_arrival_count than come, or fewer: by a whole warp where whole warps arrive."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        count = int_const(node.args[1]) if calls(node, MBARRIER_INIT) else None
        by = 0 if count is None else way * (1 if count % WARP_SIZE else WARP_SIZE)
        if by and count + by > 0:
            yield with_offset(node, 1, by)

    return change


def init_not_published(node: Stmt) -> Iterator[Stmt | None]:
    """Initialization of barriers is not visible to other blocks and the async proxy."""
    if isinstance(node, Seq) and any(calls(s, FENCE_MBARRIER_INIT) for s in node.body):
        kept = tuple(s for s in node.body if not calls(s, FENCE_MBARRIER_INIT, FENCE_PROXY_ASYNC))
        yield dataclasses.replace(node, body=kept)


def released_before_wait(node: Stmt) -> Iterator[Stmt | None]:
    """A stage is released before the wait for the wgmma instructions that read it."""
    if isinstance(node, Seq):
        for place, part in enumerate(node.body):
            if calls(part, *WGMMA_WAITS):
                for later in range(place + 1, len(node.body)):
                    if contain_call(node.body[later], *WGMMA_WAITS):
                        break
                    if contain_call(node.body[later], *ARRIVALS) and names_barrier(node.body[later], "empty"):
                        yield reordered(node, later, place)


def fewer_stages(node: Stmt) -> Iterator[Stmt | None]:
    """One partition counts one stage fewer, or releases the wrong stage."""
    if isinstance(node, Bind) and node.var.name != "odd":  # which threads store the other way round: any may
        for changed in with_smaller_modulus(node.value):
            yield dataclasses.replace(node, value=changed)
    if isinstance(node, Store) and node.buffer.scope is Scope.VAR and isinstance(node.value, Select):
        test = node.value.condition
        last = int_const(test.b) if isinstance(test, Binary) and test.op is BinaryOp.EQ else None
        if last:
            yield dataclasses.replace(node, value=Swap(test, binary(test.op, test.a, as_expr(last - 1))).expr(node.value))
    if calls(node, *ARRIVALS, MBARRIER_ARRIVE_EXPECT_TX, MBARRIER_WAIT):
        barrier = node.args[0]
        for changed in with_smaller_modulus(barrier.start[-1]):
            yield with_argument(node, 0, Region(barrier.buffer, (*barrier.start[:-1], changed), barrier.extent))


def phase_not_flipped(node: Stmt) -> Iterator[Stmt | None]:
    """The phase stays the same when the stage index wraps around."""
    if isinstance(node, Bind) and node.var.name.startswith("phase") and int_const(node.value) is None:
        yield dataclasses.replace(node, value=as_expr(0))


def own_vote(node: Stmt) -> Iterator[Stmt | None]:
    """A thread does what its own predicate says, without a barrier."""
    if calls(node, BAR_SYNC_OR):
        yield Bind(node.result, Cast(node.args[2], INT32), loc=node.loc)


def no_order_barrier(node: Stmt) -> Iterator[Stmt | None]:
    """Ping-pong warpgroups do not wait for each other."""
    if isinstance(node, Launch) and any(_is_order_barrier(s) for s in walk(node)):
        yield dataclasses.replace(node, body=Drop(_is_order_barrier).visit(node.body))


def _is_order_barrier(node: Stmt) -> bool:
    return calls(node, MBARRIER_ARRIVE, MBARRIER_WAIT) and names_barrier(node, "order")


def unfenced(node: Stmt) -> Iterator[Stmt | None]:
    """Writes of threads are not visible to the async proxy."""
    if isinstance(node, Seq) and not any(calls(s, FENCE_MBARRIER_INIT) for s in node.body):
        for place, part in enumerate(node.body):
            if calls(part, FENCE_PROXY_ASYNC):
                yield dataclasses.replace(node, body=(*node.body[:place], *node.body[place + 1 :]))


def not_elected(node: Stmt) -> Iterator[Stmt | None]:
    """All threads of a group execute what one thread should."""
    if isinstance(node, If) and node.else_body is None and _elects_one(node) and _is_issued_once(node.then_body):
        yield node.then_body


def _elects_one(node: If) -> bool:
    test = node.condition
    if isinstance(test, Var):
        return test.name.startswith("elected")
    return isinstance(test, Binary) and test.op is BinaryOp.EQ and int_const(test.b) == 0 and "thread" in str(test.a)


def _is_issued_once(node: Stmt) -> bool:
    kinds = (TMA_LOAD, TMA_STORE)
    for s in walk(node):
        if isinstance(s, CallStmt) and (getattr(s.routine, "async_unit", None) in kinds or calls(s, *ARRIVALS)):
            return True
    return False


def wrong_barrier_number(node: Stmt) -> Iterator[Stmt | None]:
    """Two groups of threads use the same named barrier."""
    if calls(node, BAR_SYNC, BAR_ARRIVE) and int_const(node.args[0]) != 15:
        yield with_argument(node, 0, as_expr(15))


def too_many_threads(node: Stmt) -> Iterator[Stmt | None]:
    """A named barrier counts more threads than arrive."""
    if calls(node, BAR_SYNC, BAR_ARRIVE):
        yield with_offset(node, 1, 128)
