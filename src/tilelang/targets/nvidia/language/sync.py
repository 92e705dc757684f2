"""Where threads wait for each other, and where memory accesses are put in order (level 3).

Emits calls of barrier and fence instructions. Invariant: a barrier orders the memory accesses before it, of the threads
that take part, before those after it.
"""

from __future__ import annotations

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.expr import Expr, ExprLike, as_expr, cast, int_const
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.lanes import FULL_MASK, as_predicate, call, lane_mask
from tilelang.language.stage import current
from tilelang.targets.gpu.isa.fence import FENCE_BLOCK, FENCE_DEVICE, FENCE_SYSTEM
from tilelang.targets.gpu.isa.sync import (
    SYNC_GRID,
    SYNC_THREADS,
    SYNC_THREADS_AND,
    SYNC_THREADS_COUNT,
    SYNC_THREADS_OR,
    SYNC_WARP,
)
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_LAUNCH, GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC

__all__ = [
    "named_barrier_arrive",
    "pdl_sync",
    "pdl_trigger",
    "sync_grid",
    "sync_threads",
    "sync_warp",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "thread_fence",
]

_BARRIERS = 16  # per block; Source: PTX ISA, "barrier{.cta}"
_FENCES = {"block": FENCE_BLOCK, "device": FENCE_DEVICE, "system": FENCE_SYSTEM}


@api
def sync_threads(barrier_id: ExprLike | None = None, arrive_count: ExprLike | None = None) -> None:
    """Every thread of the block waits here for all others; with a number, those that share the barrier of that number.

    Args:
        barrier_id: One of 16 barriers of the block, 0 to 15; the barrier of the whole block without it.
        arrive_count: How many threads take part, a multiple of 32; all of the block without it.

    Raises:
        ProgramError: There is no such barrier, or it cannot count so many threads.

    Example:
        `T.sync_threads()`
    """
    what = "T.sync_threads"
    if barrier_id is None:
        emit_call(what, SYNC_THREADS)
    else:
        emit_call(what, BAR_SYNC, *_named(what, barrier_id, arrive_count))


@api
def syncthreads_count(predicate: ExprLike) -> Expr:
    """Every thread of the block waits here for all others, and learns for how many of them the predicate holds.

    Args:
        predicate: An integer or bool of each thread.

    Raises:
        ProgramTypeError: The predicate is neither.

    Example:
        `valid = T.syncthreads_count(A[tx] > 0)`
    """
    what = "T.syncthreads_count"
    return call(what, SYNC_THREADS_COUNT, as_predicate(what, predicate))


@api
def syncthreads_and(predicate: ExprLike) -> Expr:
    """Whether the predicate holds for all threads of the block: 1 or 0. As `T.syncthreads_count` otherwise."""
    what = "T.syncthreads_and"
    return call(what, SYNC_THREADS_AND, as_predicate(what, predicate))


@api
def syncthreads_or(predicate: ExprLike) -> Expr:
    """Whether the predicate holds for any thread of the block. As `T.syncthreads_and` otherwise."""
    what = "T.syncthreads_or"
    return call(what, SYNC_THREADS_OR, as_predicate(what, predicate))


@api
def named_barrier_arrive(barrier_id: ExprLike, thread_count: ExprLike | None = None) -> None:
    """Counts as arrived at a barrier of the block without waiting for the others. As `T.sync_threads` otherwise."""
    what = "T.named_barrier_arrive"
    emit_call(what, BAR_ARRIVE, *_named(what, barrier_id, thread_count))


@api
def sync_grid() -> None:
    """Every thread of every block waits here for all others, and sees their writes to global memory from then on.

    All blocks must run at the same time, so that a grid has at most as many as the GPU holds at once; a launch with
    more is refused. Nothing else may keep one block from coming here as often as the others.

    Example:
        `T.sync_grid()`
    """
    emit_call("T.sync_grid", SYNC_GRID)


@api
def pdl_trigger() -> None:
    """Lets the next launch on the stream begin, once every block has come here or ended (`griddepcontrol`).

    That launch overlaps with this one if its kernel calls `T.pdl_sync`; what this kernel writes afterwards is seen
    behind that call all the same. Nothing on targets before sm_90.
    """
    emit_call("T.pdl_trigger", GRID_DEPENDENCY_LAUNCH)


@api
def pdl_sync() -> None:
    """Waits until all launches before this one have ended and their writes are there (`griddepcontrol`).

    A kernel that calls it is launched so that it may begin before they have ended; before the call it must not touch
    what they write. Nothing on targets before sm_90, where a launch begins when those before it have ended.

    Example:
        `T.pdl_sync()`
    """
    emit_call("T.pdl_sync", GRID_DEPENDENCY_WAIT)


@api
def sync_warp(mask: ExprLike = FULL_MASK) -> None:
    """The lanes of a warp that `mask` names wait for each other and see each other's writes."""
    emit_call("T.sync_warp", SYNC_WARP, lane_mask(mask))


@api
def thread_fence(scope: str = "device") -> None:
    """Puts the memory accesses of this thread before it in front of those after it, as others see them.

    Args:
        scope: Who sees them in that order: "block", "device" or "system".

    Raises:
        ProgramError: There is no such scope.
    """
    if scope not in _FENCES:
        raise ProgramError(f"T.thread_fence: {scope!r:.40} is no scope", hint="write 'block', 'device' or 'system'")
    emit_call("T.thread_fence", _FENCES[scope])


def _named(what: str, barrier_id: ExprLike, arrive_count: ExprLike | None) -> tuple[Expr, Expr]:
    stager = current(what)
    number = int_const(as_expr(barrier_id))
    if number is not None and not 0 <= number < _BARRIERS:
        raise ProgramError(f"{what}: there is no barrier {number}", hint=f"a block has {_BARRIERS}, 0 to 15")
    x, y, z = stager.hints.threads if stager.hints is not None else (1, 1, 1)
    threads = x * y * z if arrive_count is None else arrive_count
    count = int_const(as_expr(threads))
    if count is not None and (count % 32 or not 0 < count <= x * y * z):
        raise ProgramError(
            f"{what}: {count} threads take part, but the block has {x * y * z}, in warps of 32",
            hint="write a multiple of 32 that is not larger than the block",
        )
    return cast(barrier_id, INT32), cast(threads, INT32)
