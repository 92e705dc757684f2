"""All faults that are seeded into kernels for AMD's GPUs, by kind.

Every change yields a program that some machine may execute wrongly, however rarely.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import pairwise

from seeded import (
    CHANGES as OF_ANY_GPU,
)
from seeded import (
    Change,
    Swap,
    fewer_stages,
    loop_too_short,
    shifted_load,
    shifted_operand,
    shifted_store,
    without_predicate,
)

from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Binary, Expr, Load, as_expr, binary, const, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, CallStmt, For, Seq, Stmt, Store
from tilelang.ir.visit import walk, walk_expr
from tilelang.isa.instruction import Instruction
from tilelang.targets.amd.isa.barriers import BARRIER_SIGNAL, BARRIER_WAIT, S_BARRIER, lds_barrier
from tilelang.targets.amd.isa.direct_to_lds import DIRECT_LOADS
from tilelang.targets.amd.isa.ping_pong import begin_ping_pong, end_ping_pong
from tilelang.targets.amd.isa.wait_counters import (
    WAIT_FOR_DIRECT_LOADS,
    Counters,
    wait_for_lds,
    wait_for_loads,
    wait_for_stores,
)
from tilelang.targets.gpu.isa.sync import SYNC_THREADS

_LDS_BARRIERS = tuple(lds_barrier(counters) for counters in Counters)
_BEGINNINGS = tuple(begin_ping_pong(counters) for counters in Counters)
_ENDS = tuple(end_ping_pong(counters) for counters in Counters)
_LDS_WAITS = tuple(wait_for_lds(counters) for counters in Counters)
_STORE_WAITS = tuple(wait_for_stores(counters) for counters in Counters)


def _calls(node: Stmt, *routines: object) -> bool:
    return isinstance(node, CallStmt) and any(node.routine is routine for routine in routines)


def _without(*routines: object) -> Change:
    def change(node: Stmt) -> Iterator[Stmt | None]:
        if _calls(node, *routines):
            yield None

    return change


def _replaced(old: tuple[object, ...], new: Callable[[CallStmt], Instruction]) -> Change:
    def change(node: Stmt) -> Iterator[Stmt | None]:
        if isinstance(node, CallStmt) and _calls(node, *old):
            yield dataclasses.replace(node, routine=new(node))

    return change


def _is_load(node: Stmt) -> bool:
    return _calls(node, *DIRECT_LOADS.values())


def weaker_wait(by: int) -> Change:
    """A wait leaves so many more loads in flight; only where there are some, in loops."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        if isinstance(node, For):
            for wait in (s for s in walk(node.body) if isinstance(s, CallStmt) and _calls(s, WAIT_FOR_DIRECT_LOADS)):
                more = const((int_const(wait.args[0]) or 0) + by, wait.args[0].dtype)
                yield _with(node, wait, dataclasses.replace(wait, args=(more,)))

    return change


def _with(node: Stmt, old: Stmt, new: Stmt | None) -> Stmt | None:
    if node is old:
        return new
    if isinstance(node, For):
        return dataclasses.replace(node, body=_with(node.body, old, new))
    if isinstance(node, Seq):
        parts = [_with(part, old, new) for part in node.body]
        return dataclasses.replace(node, body=tuple(part for part in parts if part is not None))
    return node


def wait_behind_barrier(node: Stmt) -> Iterator[Stmt | None]:
    """A wait stands behind the barrier that it should precede."""
    if isinstance(node, Seq):
        for place, (first, second) in enumerate(pairwise(node.body)):
            waits = _calls(first, WAIT_FOR_DIRECT_LOADS, *_LDS_WAITS, *_STORE_WAITS)
            if waits and _calls(second, S_BARRIER, BARRIER_SIGNAL, *_LDS_BARRIERS, SYNC_THREADS):
                yield dataclasses.replace(node, body=(*node.body[:place], second, first, *node.body[place + 2 :]))


def load_before_barrier(node: Stmt) -> Iterator[Stmt | None]:
    """Direct loads are issued before the barrier that frees their tile."""
    if isinstance(node, Seq):
        for place, (first, second) in enumerate(pairwise(node.body)):
            issues = any(map(_is_load, walk(second)))
            if issues and _calls(first, *_LDS_BARRIERS, SYNC_THREADS):
                yield dataclasses.replace(node, body=(*node.body[:place], second, first, *node.body[place + 2 :]))


def scattered(node: Stmt) -> Iterator[Stmt | None]:
    """The lanes of a direct load are to fill places of their choice."""
    if isinstance(node, CallStmt) and _is_load(node):
        target = node.args[0]
        size = {"direct_to_lds_4": 4, "direct_to_lds_16": 16}[node.routine.name] // target.buffer.dtype.storage_bytes
        *leading, last = target.start
        swapped = binary(BinaryOp.BITXOR, last, const(size, last.dtype))
        yield _with_target(node, (*leading, swapped))


def same_place_for_all(node: Stmt) -> Iterator[Stmt | None]:
    """The destination of a direct load does not depend on the lane, as its hardware operand does not."""
    if isinstance(node, CallStmt) and _is_load(node):
        *leading, last = node.args[0].start
        yield _with_target(node, (*leading, last - last % 256))


def destination_of_another_wave(node: Stmt) -> Iterator[Stmt | None]:
    """A direct load fills what the next wave should fill."""
    if isinstance(node, CallStmt) and _is_load(node):
        size = 64 * {"direct_to_lds_4": 4, "direct_to_lds_16": 16}[node.routine.name]
        *leading, last = node.args[0].start
        yield _with_target(node, (*leading, last + size // node.args[0].buffer.dtype.storage_bytes))


def _with_target(node: CallStmt, start: tuple[Expr, ...]) -> CallStmt:
    target = Region(node.args[0].buffer, start, node.args[0].extent)
    return dataclasses.replace(node, args=(target, *node.args[1:]), writes=(target,))


def unpermuted_source(node: Stmt) -> Iterator[Stmt | None]:
    """The lanes of a direct load read the chunks of their own numbers, although the tile is swizzled."""
    if isinstance(node, CallStmt) and _is_load(node):
        source = node.args[1]
        for axis, index in enumerate(source.start):
            for e in walk_expr(index):
                if isinstance(e, Binary) and e.op is BinaryOp.BITXOR:
                    start = (*source.start[:axis], Swap(e, e.a).expr(index), *source.start[axis + 1 :])
                    moved = Region(source.buffer, start, source.extent)
                    yield dataclasses.replace(node, args=(node.args[0], moved, node.args[2]), reads=(moved,))


def altered_layout(node: Stmt) -> Iterator[Stmt | None]:
    """One access that disagrees with the others about where elements of a swizzled tile lie."""
    if isinstance(node, Store | Bind):
        for load in walk_expr(node.value):
            if isinstance(load, Load) and load.buffer.scope is Scope.SHARED:
                for e in walk_expr(load.indices[-1]):
                    if isinstance(e, Binary) and e.op is BinaryOp.BITXOR:
                        moved = Load(load.buffer, (*load.indices[:-1], Swap(e, e.a).expr(load.indices[-1])), load.dtype)
                        yield dataclasses.replace(node, value=Swap(load, moved).expr(node.value))
    if isinstance(node, Store) and node.buffer.scope is Scope.SHARED:
        for e in walk_expr(node.indices[-1]):
            if isinstance(e, Binary) and e.op is BinaryOp.BITXOR:
                yield dataclasses.replace(node, indices=(*node.indices[:-1], Swap(e, e.a).expr(node.indices[-1])))


def never_kept(node: Stmt) -> Iterator[Stmt | None]:
    """A direct load fills in zeros."""
    if isinstance(node, CallStmt) and _is_load(node):
        yield dataclasses.replace(node, args=(*node.args[:2], as_expr(False)))


def other_counter(node: Stmt) -> Iterator[Stmt | None]:
    """A wait for the accesses of another counter."""
    for counters, lds, stores in zip(Counters, _LDS_WAITS, _STORE_WAITS, strict=True):
        if isinstance(node, CallStmt) and _calls(node, lds, stores):
            loads = wait_for_loads(counters)
            others = (loads, stores) if node.routine is lds else (lds,) if loads_cover(counters) else (lds, loads)
            for other in others:
                yield dataclasses.replace(node, routine=other)


def another_group_late(node: Stmt) -> Iterator[Stmt | None]:
    """Of waves that ping-pong, another part is late before the loop than behind it."""
    if isinstance(node, CallStmt) and _calls(node, *_ENDS):
        yield dataclasses.replace(node, args=(as_expr(False),))


def loads_cover(counters: Counters) -> bool:
    """Whether a wait for loads is one for stores, too."""
    return counters is Counters.LOADS_AND_STORES


CHANGES: dict[str, Change] = {
    "wait for direct loads removed": _without(WAIT_FOR_DIRECT_LOADS),
    "wait for LDS removed": _without(*_LDS_WAITS),
    "wait for stores removed": _without(*_STORE_WAITS),
    "wait leaves one load more": weaker_wait(1),
    "wait leaves two loads more": weaker_wait(2),
    "wait leaves four loads more": weaker_wait(4),
    "wait for another counter": other_counter,
    "wait behind the barrier": wait_behind_barrier,
    "load before the barrier": load_before_barrier,
    "block barrier removed": _without(SYNC_THREADS),
    "LDS barrier removed": _without(*_LDS_BARRIERS),
    "bare barrier removed": _without(S_BARRIER),
    "block barrier without waits": _replaced((SYNC_THREADS,), lambda call: S_BARRIER),
    "LDS barrier without its wait": _replaced(_LDS_BARRIERS, lambda call: S_BARRIER),
    "split barrier without arrival": _without(BARRIER_SIGNAL),
    "split barrier without wait": _without(BARRIER_WAIT),
    "ping-pong not begun": _without(*_BEGINNINGS),
    "ping-pong not ended": _without(*_ENDS),
    "another group late behind the loop": another_group_late,
    "lanes scattered": scattered,
    "one place for all lanes": same_place_for_all,
    "place of another wave": destination_of_another_wave,
    "source not permuted": unpermuted_source,
    "source dropped": never_kept,
    "load left out": _without(*DIRECT_LOADS.values()),
    "predicate removed": without_predicate,
    "layout altered": altered_layout,
    "operand shifted": shifted_operand,
    "fewer stages": fewer_stages,
    "store shifted": shifted_store,
    "load shifted": shifted_load,
    "loop too short": loop_too_short,
    "bounds check removed": OF_ANY_GPU["bounds check removed"],
    "bounds check of a load removed": OF_ANY_GPU["bounds check of a load removed"],
}
