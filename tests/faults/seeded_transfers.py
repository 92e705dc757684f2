"""Faults of transfers on Hopper: coordinates and maps of TMA copies, multicast masks, stores to other blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import pairwise

from edits import calls, is_load, with_argument, with_offset
from seeded import Change

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Binary, as_expr, int_const
from tilelang.ir.launch import TensorMap
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import CallStmt, Launch, Seq, Stmt
from tilelang.ir.visit import walk_expr
from tilelang.targets.nvidia.isa.cluster import (
    CLUSTER_ARRIVE,
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_WAIT,
    mbarrier_arrive_remote,
)
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE, MBARRIER_ARRIVE_EXPECT_TX


def _is_sent(node: Stmt) -> bool:
    return isinstance(node, CallStmt) and node.routine.name.startswith("cluster_store_async")


def partial_sum_not_sent(node: Stmt) -> Iterator[Stmt | None]:
    """A partial sum is not sent to the block that adds it."""
    if _is_sent(node):
        yield None


def partial_sum_to_wrong_block(node: Stmt) -> Iterator[Stmt | None]:
    """Partial sums are sent to another block of the cluster, or to the block itself."""
    if _is_sent(node):
        yield with_argument(node, 1, 1 - node.args[1])


def partial_sum_to_wrong_address(node: Stmt) -> Iterator[Stmt | None]:
    """Partial sums are sent to the address of another thread."""
    if _is_sent(node):
        place = node.args[0]
        yield with_argument(node, 0, Region(place.buffer, (place.start[0] ^ 4,), place.extent))


def wrong_partial_sum(node: Stmt) -> Iterator[Stmt | None]:
    """Partial sums of wrong columns are sent."""
    if _is_sent(node):
        value = node.args[2]
        yield with_argument(node, 2, dataclasses.replace(value, indices=((value.indices[0] + 16) % 32,)))


def _coordinates(node: Stmt) -> range:
    """The positions of the arguments that are coordinates of a TMA copy."""
    if not isinstance(node, CallStmt) or not node.routine.name.startswith(("tma_load_", "tma_store_")):
        return range(0)
    rank = node.routine.name.removeprefix("tma_load_").removeprefix("tma_store_")[0]
    if not rank.isdigit():
        return range(0)
    first = 3 if is_load(node) else 2
    return range(first, first + int(rank))


def coordinate_shifted(node: Stmt) -> Iterator[Stmt | None]:
    """A coordinate of a box is off by one."""
    for position in _coordinates(node):
        yield with_offset(node, position, 1)


def coordinates_swapped(node: Stmt) -> Iterator[Stmt | None]:
    """The first two coordinates are swapped."""
    places = _coordinates(node)
    if len(places) > 1:
        args = list(node.args)
        args[places[0]], args[places[1]] = args[places[1]], args[places[0]]
        yield dataclasses.replace(node, args=tuple(args))


def multicast_to_fewer_blocks(node: Stmt) -> Iterator[Stmt | None]:
    """A multicast reaches only one block."""
    if isinstance(node, CallStmt) and "multicast" in node.routine.name:
        place = _coordinates(node).stop
        for mask in (1, 2):
            yield with_argument(node, place, as_expr(mask))


def multicast_to_wrong_blocks(node: Stmt) -> Iterator[Stmt | None]:
    """A multicast mask does not depend on the block, or has a block too many."""
    if isinstance(node, CallStmt) and "multicast" in node.routine.name:
        place = _coordinates(node).stop
        for shift in walk_expr(node.args[place]):
            if isinstance(shift, Binary) and shift.op is BinaryOp.SHL:
                mask = int_const(shift.a)
                for other in (mask, mask | mask << 1):
                    yield with_argument(node, place, as_expr(other))


def release_to_own_block_only(node: Stmt) -> Iterator[Stmt | None]:
    """A stage is released to the own block instead of the blocks that load it."""
    if calls(node, mbarrier_arrive_remote()):
        yield dataclasses.replace(node, routine=MBARRIER_ARRIVE, args=node.args[:1])


def expected_bytes_of_own_part(node: Stmt) -> Iterator[Stmt | None]:
    """Only the bytes of the block's own part are expected."""
    if isinstance(node, Seq) and any(isinstance(s, CallStmt) and "multicast" in s.routine.name for s in node.body):
        for place, part in enumerate(node.body):
            if calls(part, MBARRIER_ARRIVE_EXPECT_TX):
                fewer = with_argument(part, 1, as_expr((int_const(part.args[1]) or 0) // 2))
                yield dataclasses.replace(node, body=(*node.body[:place], fewer, *node.body[place + 1 :]))


def no_cluster_barrier(node: Stmt) -> Iterator[Stmt | None]:
    """A cluster barrier is missing at the start or before the exit."""
    if isinstance(node, Seq):
        for place, (first, second) in enumerate(pairwise(node.body)):
            if calls(first, CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED) and calls(second, CLUSTER_WAIT):
                yield dataclasses.replace(node, body=(*node.body[:place], *node.body[place + 2 :]))


def map_change(change: Callable[[TensorMap], TensorMap | None]) -> Change:
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
    """The box of a map is half as large."""

    def change(old: TensorMap) -> TensorMap:
        box = (*old.box[:axis], old.box[axis] // 2, *old.box[axis + 1 :])
        return dataclasses.replace(old, box=box)

    return map_change(change)


def other_swizzle(old: TensorMap) -> TensorMap | None:
    """The swizzle of a map differs from that of the tile."""
    return dataclasses.replace(old, swizzle=old.swizzle // 2 if old.swizzle > 32 else 0) if old.swizzle else None


def other_stride(old: TensorMap) -> TensorMap | None:
    """A stride of a map is too small."""
    first = old.strides[0] if old.strides else None
    return dataclasses.replace(old, strides=(first - 16, *old.strides[1:])) if first is not None else None


def fewer_rows(old: TensorMap) -> TensorMap:
    """A map has a row fewer, so that TMA loads zeros."""
    return dataclasses.replace(old, dims=(*old.dims[:-1], old.dims[-1] - 1))
