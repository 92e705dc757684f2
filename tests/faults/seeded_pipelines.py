"""Faults of pipelines at tile level: statements that are missing, stand elsewhere, or name another stage or phase."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from edits import Drop, reordered
from seeded import Change

from tilelang.dtypes import INT32
from tilelang.ir.expr import const, int_const
from tilelang.ir.pipeline import (
    Acquire,
    Commit,
    InitPipelines,
    OrderArrive,
    OrderWait,
    Pipeline,
    Release,
    ReleaseTo,
    Wait,
)
from tilelang.ir.stmt import Alloc, Launch, Seq, Stmt, Store
from tilelang.ir.visit import accessed_buffers, walk


def removed(kind: type[Stmt]) -> Change:
    """A statement is missing."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        if isinstance(node, kind):
            yield None

    return change


def wrong_phase(kind: type[Acquire | Wait]) -> Change:
    """A wait for the other phase."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        waits = isinstance(node, kind) and (kind is Wait or node.pipeline.empty is not None)
        if waits:
            yield dataclasses.replace(node, phase=1 - node.phase)

    return change


def always_first(node: Stmt) -> Iterator[Stmt | None]:
    """The first stage is released each time; another one in turns would only be released later than it could be."""
    if isinstance(node, Release) and int_const(node.index) != 0:
        yield dataclasses.replace(node, index=const(0, INT32))


def wrong_index(kind: type[Acquire | Commit | Wait]) -> Change:
    """The stage behind the one that is meant."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        if isinstance(node, kind) and node.pipeline.stages > 1:
            yield dataclasses.replace(node, index=(node.index + 1) % node.pipeline.stages)

    return change


def no_order_barrier(node: Stmt) -> Iterator[Stmt | None]:
    """Groups that compute alternate tiles do not wait for each other."""
    orders = {s.order for s in walk(node) if isinstance(s, OrderWait | OrderArrive)} if isinstance(node, Launch) else set()
    for order in orders:
        if order.barriers is not None:
            drop = Drop(lambda s: isinstance(s, OrderWait | OrderArrive) and s.order is order)
            yield drop.visit(node)


def _uses_tiles(stmt: Stmt, pipeline: Pipeline) -> bool:
    tiles = {tile.storage for tile in pipeline.tiles}
    return any(buffer.storage in tiles for s in walk(stmt) if not isinstance(s, Alloc) for buffer in accessed_buffers(s))


def released_early(node: Stmt) -> Iterator[Stmt | None]:
    """A stage is released before its last reader."""
    yield from _moved(node, Release, -1)


def waited_late(node: Stmt) -> Iterator[Stmt | None]:
    """A consumer waits behind its first reader."""
    yield from _moved(node, Wait, 1)


def acquired_late(node: Stmt) -> Iterator[Stmt | None]:
    """The producer waits for an empty stage behind what fills it first."""
    yield from _moved(node, Acquire, 1)


def committed_early(node: Stmt) -> Iterator[Stmt | None]:
    """The producer commits before what fills the stage last."""
    yield from _moved(node, Commit, -1)


def _moved(node: Stmt, kind: type[Stmt], step: int) -> Iterator[Stmt | None]:
    """The statements of a kind, moved past the nearest one in their sequence that uses the tiles."""
    for place, stmt in enumerate(node.body if isinstance(node, Seq) else ()):
        if isinstance(stmt, kind):
            others = range(place + step, len(node.body) if step > 0 else -1, step)
            passed = next((other for other in others if _uses_tiles(node.body[other], stmt.pipeline)), None)
            if passed is not None:
                yield reordered(node, place, passed)


def one_not_initialized(node: Stmt) -> Iterator[Stmt | None]:
    """A pipeline or an order barrier is not initialized."""
    if isinstance(node, InitPipelines):
        for each in node.pipelines:
            yield dataclasses.replace(node, pipelines=tuple(other for other in node.pipelines if other is not each))
        for order in node.orders:
            yield dataclasses.replace(node, orders=tuple(other for other in node.orders if other is not order))


def other_member(node: Stmt) -> Iterator[Stmt | None]:
    """A group takes the turn of the next one."""
    if isinstance(node, OrderWait | OrderArrive) and node.member is not None:
        yield dataclasses.replace(node, member=(node.member + 1) % node.order.groups)


def wrong_order_phase(node: Stmt) -> Iterator[Stmt | None]:
    """A group waits for the other phase of its turns."""
    if isinstance(node, OrderWait) and node.phase is not None:
        yield dataclasses.replace(node, phase=1 - node.phase)


def wrong_fill(node: Stmt) -> Iterator[Stmt | None]:
    """Copies complete on the barrier of another stage."""
    barrier = getattr(node, "barrier", None)
    stages = barrier.buffer.static_shape[0] if barrier is not None else 1
    if stages > 1:
        start = ((barrier.start[0] + const(1, INT32)) % stages,)
        yield dataclasses.replace(node, barrier=dataclasses.replace(barrier, start=start))


def not_counted(node: Stmt) -> Iterator[Stmt | None]:
    """A partition does not count fills."""
    if isinstance(node, Store) and node.buffer.name == "fills":
        yield None


CHANGES: dict[str, Change] = {
    "acquire removed": removed(Acquire),
    "commit removed": removed(Commit),
    "wait removed": removed(Wait),
    "release removed": removed(Release),
    "release to the own block only": removed(ReleaseTo),
    "wrong phase of an acquire": wrong_phase(Acquire),
    "wrong phase of a wait": wrong_phase(Wait),
    "wrong stage acquired": wrong_index(Acquire),
    "wrong stage committed": wrong_index(Commit),
    "wrong stage waited for": wrong_index(Wait),
    "wrong stage released": always_first,
    "wrong stage filled": wrong_fill,
    "fills not counted": not_counted,
    "acquired behind the first fill": acquired_late,
    "committed before the last fill": committed_early,
    "waited for behind the first reader": waited_late,
    "released before the last reader": released_early,
    "not initialized": one_not_initialized,
    "order wait removed": removed(OrderWait),
    "order arrival removed": removed(OrderArrive),
    "order barrier removed": no_order_barrier,
    "turn of another group": other_member,
    "wrong phase of a turn": wrong_order_phase,
}
