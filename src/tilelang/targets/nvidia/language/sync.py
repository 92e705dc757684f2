"""Barriers of the block, of all its threads and of some (level 3).

Emits calls of barrier instructions. Invariant: a barrier orders the memory accesses before it, of the threads that take
part, before those after it.
"""

from __future__ import annotations

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.expr import Expr, ExprLike, as_expr, cast, int_const
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.stage import current
from tilelang.targets.gpu.isa.sync import (
    SYNC_THREADS,
)
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC

__all__ = [
    "named_barrier_arrive",
    "sync_threads",
]

_BARRIERS = 16  # per block; Source: PTX ISA, "barrier{.cta}"


@api
def sync_threads(barrier_id: ExprLike | None = None, arrive_count: ExprLike | None = None) -> None:
    """Every thread of the block waits here for all others; with a number, those that share the barrier of that number.

    Args:
        barrier_id: One of 16 barriers of the block, 0 to 15; the barrier of the whole block without it.
        arrive_count: How many threads take part, a multiple of 32; all of the block without it.

    Raises:
        ProgramError: There is no such barrier, or it cannot count that number of threads.

    Example:
        `T.sync_threads()`
    """
    what = "T.sync_threads"
    if barrier_id is None:
        emit_call(what, SYNC_THREADS)
    else:
        emit_call(what, BAR_SYNC, *_named(what, barrier_id, arrive_count))


@api
def named_barrier_arrive(barrier_id: ExprLike, thread_count: ExprLike | None = None) -> None:
    """Counts as arrived at a barrier of the block without waiting for the others. As `T.sync_threads` otherwise."""
    what = "T.named_barrier_arrive"
    emit_call(what, BAR_ARRIVE, *_named(what, barrier_id, thread_count))


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
