"""Faults that only kernels for Hopper have: in phases, bytes, fences, descriptors, maps, and in who does what.

Takes what `seeded` takes. Every change yields a program that some machine may run wrongly, however seldom; a change
that no machine notices is none of these. Programs are expected to need every barrier, fence and wait that they have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from seeded import Change, Swap, loop_too_long, loop_too_short, shifted_operand

from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Binary, Const, Expr, Select, Var, as_expr, binary, int_const
from tilelang.ir.launch import TensorMap
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, CallStmt, If, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, walk, walk_expr
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.isa.async_units import TMA_LOAD, TMA_STORE, WGMMA
from tilelang.targets.nvidia.isa.cluster import (
    CLUSTER_ARRIVE,
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_WAIT,
    mbarrier_arrive_remote,
)
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC, FENCE_PROXY_ASYNC_GLOBAL
from tilelang.targets.nvidia.isa.mbarrier import (
    FENCE_MBARRIER_INIT,
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_WAIT,
)
from tilelang.targets.nvidia.isa.named_barrier import BAR_SYNC
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, tma_store_wait
from tilelang.targets.nvidia.isa.wgmma import MATRIX_DESCRIPTOR, WGMMA_COMMIT, WGMMA_FENCE, wgmma_wait
from tilelang.targets.nvidia.machines import WARP_SIZE

ARRIVALS = (MBARRIER_ARRIVE, mbarrier_arrive_remote(), mbarrier_arrive_remote(release=True))
CLUSTER = (CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT)
WGMMA_WAITS = [wgmma_wait(n) for n in range(4)]
STORE_WAITS = [tma_store_wait(n, read=read) for read in (True, False) for n in range(4)]


def _calls(node: Stmt, *routines: object) -> bool:
    return isinstance(node, CallStmt) and node.routine in routines


def _hold(node: Stmt, *routines: object) -> bool:
    return any(_calls(s, *routines) for s in walk(node))


def _with(node: CallStmt, position: int, arg: Expr | Region) -> CallStmt:
    return dataclasses.replace(node, args=(*node.args[:position], arg, *node.args[position + 1 :]))


def _moved(node: CallStmt, position: int, by: int) -> CallStmt:
    old = node.args[position]
    return _with(node, position, binary(BinaryOp.ADD, old, as_expr(by)) if old.is_index else old + by)


def without(*routines: object) -> Change:
    """The instruction is left out."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        if _calls(node, *routines):
            yield None

    return change


def scalar_not_assigned(node: Stmt) -> Iterator[Stmt | None]:
    """A mutable scalar keeps its value."""
    if isinstance(node, Store) and node.buffer.scope is Scope.VAR:
        yield None


# -- barriers in shared memory -------------------------------------------------------------------------------------
def wrong_parity(node: Stmt) -> Iterator[Stmt | None]:
    """A wait for the other phase."""
    if _calls(node, MBARRIER_WAIT):
        yield _with(node, 1, 1 - node.args[1])


def bytes_announced(by: int) -> Change:
    """More bytes are announced than come, or fewer."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        if _calls(node, MBARRIER_ARRIVE_EXPECT_TX):
            yield _moved(node, 1, by)

    return change


def nothing_announced(node: Stmt) -> Iterator[Stmt | None]:
    """The producer arrives, but does not say how many bytes come."""
    if _calls(node, MBARRIER_ARRIVE_EXPECT_TX):
        yield dataclasses.replace(node, routine=MBARRIER_ARRIVE, args=node.args[:1])


def announced_late(node: Stmt) -> Iterator[Stmt | None]:
    """The producer waits for an empty stage after it has begun to fill it."""
    if isinstance(node, Seq):
        places = [i for i, s in enumerate(node.body) if _calls(s, MBARRIER_WAIT)]
        loads = [i for i, s in enumerate(node.body) if isinstance(s, CallStmt) and _is_load(s)]
        for place in places:
            after = [i for i in loads if i > place]
            if after and after[0] == place + 2:  # what announces the bytes stands between
                yield _reordered(node, place, after[0])


def arrivals(way: int) -> Change:
    """A phase counts more arrivals than come, or fewer: by a whole warp where whole warps arrive."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        count = int_const(node.args[1]) if _calls(node, MBARRIER_INIT) else None
        by = 0 if count is None else way * (1 if count % WARP_SIZE else WARP_SIZE)
        if by and count + by > 0:
            yield _moved(node, 1, by)

    return change


def barriers_not_shown(node: Stmt) -> Iterator[Stmt | None]:
    """Neither other blocks nor engines are certain to see that barriers were made."""
    if isinstance(node, Seq) and any(_calls(s, FENCE_MBARRIER_INIT) for s in node.body):
        kept = tuple(s for s in node.body if not _calls(s, FENCE_MBARRIER_INIT, FENCE_PROXY_ASYNC))
        yield dataclasses.replace(node, body=kept)


def released_early(node: Stmt) -> Iterator[Stmt | None]:
    """A stage is given back before the wait for the products that read it."""
    if isinstance(node, Seq):
        for place, part in enumerate(node.body):
            if _calls(part, *WGMMA_WAITS):
                for later in range(place + 1, len(node.body)):
                    if _hold(node.body[later], *WGMMA_WAITS):
                        break
                    if _hold(node.body[later], *ARRIVALS) and _touches(node.body[later], "empty"):
                        yield _reordered(node, later, place)


def ring_of_barriers_shortened(node: Stmt) -> Iterator[Stmt | None]:
    """One role takes the versions of a ring to be one fewer, or gives back the wrong one."""
    if isinstance(node, Bind):
        for changed in _with_fewer(node.value):
            yield dataclasses.replace(node, value=changed)
    if isinstance(node, Store) and node.buffer.scope is Scope.VAR and isinstance(node.value, Select):
        test = node.value.condition
        last = int_const(test.b) if isinstance(test, Binary) and test.op is BinaryOp.EQ else None
        if last:
            yield dataclasses.replace(node, value=Swap(test, binary(test.op, test.a, as_expr(last - 1))).expr(node.value))
    if _calls(node, *ARRIVALS, MBARRIER_ARRIVE_EXPECT_TX, MBARRIER_WAIT):
        barrier = node.args[0]
        for changed in _with_fewer(barrier.start[-1]):
            yield _with(node, 0, Region(barrier.buffer, (*barrier.start[:-1], changed), barrier.extent))


def phase_forgotten(node: Stmt) -> Iterator[Stmt | None]:
    """The phase stays the same when a ring comes round."""
    if isinstance(node, Bind) and node.var.name.startswith("phase") and int_const(node.value) is None:
        yield dataclasses.replace(node, value=as_expr(0))


def no_turns(node: Stmt) -> Iterator[Stmt | None]:
    """Warpgroups that should take turns do not wait for each other."""
    if isinstance(node, Launch) and any(_is_turn(s) for s in walk(node)):
        yield dataclasses.replace(node, body=_Dropped(_is_turn).visit(node.body))


def unfenced(node: Stmt) -> Iterator[Stmt | None]:
    """What threads wrote is not certain to be seen by an engine."""
    if isinstance(node, Seq) and not any(_calls(s, FENCE_MBARRIER_INIT) for s in node.body):
        for place, part in enumerate(node.body):
            if _calls(part, FENCE_PROXY_ASYNC):
                yield dataclasses.replace(node, body=(*node.body[:place], *node.body[place + 1 :]))


# -- other blocks ------------------------------------------------------------------------------------------------
def _is_sent(node: Stmt) -> bool:
    return isinstance(node, CallStmt) and node.routine.name.startswith("cluster_store_async")


def not_sent(node: Stmt) -> Iterator[Stmt | None]:
    """A part of the sums is not sent to the block that adds them up."""
    if _is_sent(node):
        yield None


def sent_to_another_block(node: Stmt) -> Iterator[Stmt | None]:
    """Sums are sent to another block of the cluster, or kept."""
    if _is_sent(node):
        yield _with(node, 1, 1 - node.args[1])


def sent_to_another_place(node: Stmt) -> Iterator[Stmt | None]:
    """Sums are sent where those of another thread belong."""
    if _is_sent(node):
        place = node.args[0]
        yield _with(node, 0, Region(place.buffer, (place.start[0] ^ 4,), place.extent))


def others_sent(node: Stmt) -> Iterator[Stmt | None]:
    """Sums of other columns are sent than the owner adds."""
    if _is_sent(node):
        value = node.args[2]
        yield _with(node, 2, dataclasses.replace(value, indices=((value.indices[0] + 16) % 32,)))


# -- engines -------------------------------------------------------------------------------------------------------
def _is_load(node: CallStmt) -> bool:
    return getattr(node.routine, "async_unit", None) is TMA_LOAD


def _coordinates(node: Stmt) -> range:
    """Which arguments of a copy of a box say where it is."""
    if not isinstance(node, CallStmt) or not node.routine.name.startswith(("tma_load_", "tma_store_")):
        return range(0)
    rank = node.routine.name.removeprefix("tma_load_").removeprefix("tma_store_")[0]
    if not rank.isdigit():
        return range(0)
    first = 3 if _is_load(node) else 2
    return range(first, first + int(rank))


def coordinate_shifted(node: Stmt) -> Iterator[Stmt | None]:
    """A box is taken from, or put, somewhere else."""
    for position in _coordinates(node):
        yield _moved(node, position, 1)


def coordinates_swapped(node: Stmt) -> Iterator[Stmt | None]:
    """Coordinates are given the outermost first."""
    places = _coordinates(node)
    if len(places) > 1:
        args = list(node.args)
        args[places[0]], args[places[1]] = args[places[1]], args[places[0]]
        yield dataclasses.replace(node, args=tuple(args))


def other_blocks_left_out(node: Stmt) -> Iterator[Stmt | None]:
    """A multicast reaches only one block."""
    if isinstance(node, CallStmt) and "multicast" in node.routine.name:
        place = _coordinates(node).stop
        for mask in (1, 2):
            yield _with(node, place, as_expr(mask))


def other_blocks_reached(node: Stmt) -> Iterator[Stmt | None]:
    """A multicast reaches the same blocks from wherever it comes, or a block that brings its own tile, too."""
    if isinstance(node, CallStmt) and "multicast" in node.routine.name:
        place = _coordinates(node).stop
        for shift in walk_expr(node.args[place]):
            if isinstance(shift, Binary) and shift.op is BinaryOp.SHL:
                mask = int_const(shift.a)
                for other in (mask, mask | mask << 1):
                    yield _with(node, place, as_expr(other))


def only_own_block_told(node: Stmt) -> Iterator[Stmt | None]:
    """The others who bring a tile are not told that it has been read; the executing block is told for them."""
    if _calls(node, mbarrier_arrive_remote()):
        yield dataclasses.replace(node, routine=MBARRIER_ARRIVE, args=node.args[:1])


def own_part_announced(node: Stmt) -> Iterator[Stmt | None]:
    """Only the bytes are announced that the block brings itself."""
    if isinstance(node, Seq) and any(isinstance(s, CallStmt) and "multicast" in s.routine.name for s in node.body):
        for place, part in enumerate(node.body):
            if _calls(part, MBARRIER_ARRIVE_EXPECT_TX):
                fewer = _with(part, 1, as_expr((int_const(part.args[1]) or 0) // 2))
                yield dataclasses.replace(node, body=(*node.body[:place], fewer, *node.body[place + 1 :]))


def no_meeting(node: Stmt) -> Iterator[Stmt | None]:
    """Blocks of a cluster do not meet before they touch each other, or before they end."""
    if isinstance(node, Seq):
        for place, (first, second) in enumerate(pairwise(node.body)):
            if _calls(first, CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED) and _calls(second, CLUSTER_WAIT):
                yield dataclasses.replace(node, body=(*node.body[:place], *node.body[place + 2 :]))


def _map_change(change: Callable[[TensorMap], TensorMap | None]) -> Change:
    def of_launch(node: Stmt) -> Iterator[Stmt | None]:
        if isinstance(node, Launch):
            maps = node.plan.tensor_maps
            for place, old in enumerate(maps):
                new = change(old)
                if new is not None:
                    plan = dataclasses.replace(node.plan, tensor_maps=(*maps[:place], new, *maps[place + 1 :]))
                    yield dataclasses.replace(node, plan=plan)

    return of_launch


def half_a_box(axis: int) -> Change:
    """A map moves half of the box."""

    def change(old: TensorMap) -> TensorMap:
        box = (*old.box[:axis], old.box[axis] // 2, *old.box[axis + 1 :])
        return dataclasses.replace(old, box=box)

    return _map_change(change)


def other_swizzle(old: TensorMap) -> TensorMap | None:
    """Chunks lie in other places than those who read them, or wrote them, think."""
    return dataclasses.replace(old, swizzle=old.swizzle // 2 if old.swizzle > 32 else 0) if old.swizzle else None


def other_stride(old: TensorMap) -> TensorMap | None:
    """Lines of a tensor lie closer together than they do."""
    first = old.strides[0] if old.strides else None
    return dataclasses.replace(old, strides=(first - 16, *old.strides[1:])) if first is not None else None


def fewer_lines(old: TensorMap) -> TensorMap:
    """The engine takes the tensor to end early, and fills up with zeros."""
    return dataclasses.replace(old, dims=(*old.dims[:-1], old.dims[-1] - 1))


# -- matrix instructions -------------------------------------------------------------------------------------------
def waits_for_less(waits: Sequence[object]) -> Change:
    """A wait leaves one more group pending."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        for old, new in pairwise(waits):
            if _calls(node, old):
                yield dataclasses.replace(node, routine=new)

    return change


def descriptor_moved(node: Stmt) -> Iterator[Stmt | None]:
    """An operand is said to begin 16 bytes, or a line, further on."""
    if _calls(node, MATRIX_DESCRIPTOR):
        tile = node.args[0]
        for by in (8, 64):
            yield _with(node, 0, Region(tile.buffer, (*tile.start[:-1], tile.start[-1] + by), tile.extent))


def distance_altered(position: int) -> Change:
    """A distance of a descriptor is wrong; 0 stands where the hardware does not ask for it."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        if _calls(node, MATRIX_DESCRIPTOR):
            old = int_const(node.args[position]) or 0
            for new in (old + 16, old // 2) if old else ():
                yield _with(node, position, as_expr(new))

    return change


def code_altered(node: Stmt) -> Iterator[Stmt | None]:
    """A descriptor says that chunks were permuted otherwise."""
    if _calls(node, MATRIX_DESCRIPTOR):
        for code in {0, 1, 2, 3} - {int_const(node.args[3])}:
            yield _with(node, 3, as_expr(code))


def step_altered(node: Stmt) -> Iterator[Stmt | None]:
    """A product starts 16 bytes beside its part of a tile, or stays in one place."""
    if isinstance(node, CallStmt) and getattr(node.routine, "async_unit", None) is WGMMA:
        for position, arg in enumerate(node.args):
            if isinstance(arg, Binary) and arg.op is BinaryOp.ADD and str(arg.dtype) == "uint64":
                yield _moved(node, position, 1)
                yield _with(node, position, arg.a)


def sums_altered(node: Stmt) -> Iterator[Stmt | None]:
    """Old sums are kept that should go, or go although they should be kept."""
    if isinstance(node, CallStmt) and getattr(node.routine, "async_unit", None) is WGMMA and len(node.args) == 4:
        for keep in (True, False):
            if not (isinstance(node.args[3], Const) and node.args[3].value == keep):
                yield _with(node, 3, Const(keep, BOOL))


# -- who does what -------------------------------------------------------------------------------------------------
def all_issue(node: Stmt) -> Iterator[Stmt | None]:
    """What one thread should do is done by all of its group."""
    if isinstance(node, If) and node.else_body is None and _asks_for_one(node) and _works(node.then_body):
        yield node.then_body


def other_barrier(node: Stmt) -> Iterator[Stmt | None]:
    """Two groups of threads meet at the same named barrier."""
    if _calls(node, BAR_SYNC) and int_const(node.args[0]) != 15:
        yield _with(node, 0, as_expr(15))


def more_threads_meet(node: Stmt) -> Iterator[Stmt | None]:
    """A named barrier counts more threads than come."""
    if _calls(node, BAR_SYNC):
        yield _moved(node, 1, 128)


CHANGES: dict[str, Change] = {
    "scalar not assigned": scalar_not_assigned,
    "wrong parity": wrong_parity,
    "phase forgotten": phase_forgotten,
    "too few bytes announced": bytes_announced(-128),
    "too many bytes announced": bytes_announced(128),
    "nothing announced": nothing_announced,
    "announcement removed": without(MBARRIER_ARRIVE_EXPECT_TX),
    "wait for a barrier removed": without(MBARRIER_WAIT),
    "stage filled before the wait": announced_late,
    "arrival removed": without(*ARRIVALS),
    "one arrival more": arrivals(1),
    "one arrival fewer": arrivals(-1),
    "barriers not shown": barriers_not_shown,
    "stage released early": released_early,
    "ring shortened": ring_of_barriers_shortened,
    "turns not taken": no_turns,
    "fence of proxies removed": unfenced,
    "fence for global memory removed": without(FENCE_PROXY_ASYNC_GLOBAL),
    "wait for stores removed": without(*STORE_WAITS),
    "wait for too few stores": waits_for_less(STORE_WAITS),
    "commit of stores removed": without(TMA_STORE_COMMIT),
    "fence of registers removed": without(WGMMA_FENCE),
    "commit of products removed": without(WGMMA_COMMIT),
    "wait for products removed": without(*WGMMA_WAITS),
    "wait for too few products": waits_for_less(WGMMA_WAITS),
    "descriptor moved": descriptor_moved,
    "leading distance altered": distance_altered(1),
    "stride distance altered": distance_altered(2),
    "code of a descriptor altered": code_altered,
    "step of a product altered": step_altered,
    "sums kept or dropped": sums_altered,
    "sums not sent": not_sent,
    "sums sent to another block": sent_to_another_block,
    "sums sent to another place": sent_to_another_place,
    "sums of others sent": others_sent,
    "coordinate shifted": coordinate_shifted,
    "coordinates swapped": coordinates_swapped,
    "other blocks left out": other_blocks_left_out,
    "other blocks reached": other_blocks_reached,
    "only the own block told": only_own_block_told,
    "bytes of the own part": own_part_announced,
    "no meeting of a cluster": no_meeting,
    "inner half of a box": half_a_box(0),
    "outer half of a box": half_a_box(1),
    "other swizzle of a map": _map_change(other_swizzle),
    "other stride of a map": _map_change(other_stride),
    "fewer lines in a map": _map_change(fewer_lines),
    "all threads issue": all_issue,
    "barrier of a group removed": without(BAR_SYNC),
    "barrier of the block removed": without(SYNC_THREADS),
    "barrier of the cluster removed": without(*CLUSTER),
    "barrier of another group": other_barrier,
    "more threads meet": more_threads_meet,
    "operand shifted": shifted_operand,
    "loop too short": loop_too_short,
    "loop too long": loop_too_long,
}


class _Dropped(Rewriter):
    def __init__(self, drops: Callable[[Stmt], bool]) -> None:
        self._drops = drops

    def stmt(self, node: Stmt) -> Stmt | None:
        return None if self._drops(node) else self.rebuild_stmt(node)


def _touches(node: Stmt, name: str) -> bool:
    """Whether something names a barrier like this."""
    regions = (a for s in walk(node) if isinstance(s, CallStmt) for a in s.args if isinstance(a, Region))
    return any(name in region.buffer.name for region in regions)


def _is_turn(node: Stmt) -> bool:
    return _calls(node, MBARRIER_ARRIVE, MBARRIER_WAIT) and _touches(node, "turn_order")


def _reordered(node: Seq, old: int, new: int) -> Seq:
    body = list(node.body)
    body.insert(new, body.pop(old))
    return dataclasses.replace(node, body=tuple(body))


def _with_fewer(expr: Expr) -> Iterator[Expr]:
    for e in walk_expr(expr):
        if isinstance(e, Binary) and e.op in (BinaryOp.FLOORMOD, BinaryOp.TRUNCMOD) and int_const(e.b) in (2, 3, 4):
            yield Swap(e, binary(e.op, e.a, as_expr(int_const(e.b) - 1))).expr(expr)


def _asks_for_one(node: If) -> bool:
    test = node.condition
    if isinstance(test, Var):
        return test.name.startswith("elected")
    return isinstance(test, Binary) and test.op is BinaryOp.EQ and int_const(test.b) == 0 and "thread" in str(test.a)


def _works(node: Stmt) -> bool:
    kinds = (TMA_LOAD, TMA_STORE)
    for s in walk(node):
        if isinstance(s, CallStmt) and (getattr(s.routine, "async_unit", None) in kinds or _calls(s, *ARRIVALS)):
            return True
    return False
