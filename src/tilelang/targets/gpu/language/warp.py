"""Functions of several warp instructions: reductions, and the election of a thread (level 3).

Invariant: every thread of the warp must execute the call; the simulator reports divergence.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.dtypes import DType
from tilelang.errors import ProgramError
from tilelang.ir.expr import Expr, ExprLike, as_expr, binary
from tilelang.ir.scalar import BinaryOp
from tilelang.language.api import api
from tilelang.language.lanes import LANES, call, lane_mask, shuffled
from tilelang.language.stage import current
from tilelang.language.threads import linear_thread
from tilelang.targets.gpu.isa.lanes import FULL_MASK
from tilelang.targets.gpu.isa.warp import ELECT

__all__ = [
    "shuffle_elect",
    "warp_reduce_bitand",
    "warp_reduce_bitor",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_sum",
]

_UINT64 = DType("uint64")


@api
def shuffle_elect(thread_extent: int = LANES) -> Expr:
    """Whether the executing thread is the elected one of each `thread_extent` threads; all of them must execute it.

    Args:
        thread_extent: Threads per group, a multiple of 32; 0 for the whole block.

    Raises:
        ProgramError: It is no such number.

    Example:
        `if T.shuffle_elect(128): T.barrier_arrive(full)`
    """
    what = "T.shuffle_elect"
    if isinstance(thread_extent, bool) or not isinstance(thread_extent, int) or thread_extent % LANES:
        raise ProgramError(f"{what}: {thread_extent!r:.40} threads", hint="write 32, 64, 128 or 0 for the whole block")
    elected = call(what, ELECT, lane_mask(FULL_MASK))
    thread = linear_thread(what)
    if thread_extent == LANES:
        return elected
    index = thread if thread_extent == 0 else thread % thread_extent
    return binary(BinaryOp.AND, index < LANES, elected)


@api
def warp_reduce_sum(value: ExprLike) -> Expr:
    """The sum over all 32 lanes, in every lane."""
    return _reduce("T.warp_reduce_sum", value, lambda a, b: a + b)


@api
def warp_reduce_max(value: ExprLike) -> Expr:
    """The maximum over all 32 lanes, in every lane; propagates NaN."""
    return _reduce("T.warp_reduce_max", value, lambda a, b: binary(BinaryOp.MAX, a, b))


@api
def warp_reduce_min(value: ExprLike) -> Expr:
    """The minimum over all 32 lanes, in every lane; propagates NaN."""
    return _reduce("T.warp_reduce_min", value, lambda a, b: binary(BinaryOp.MIN, a, b))


@api
def warp_reduce_bitand(value: ExprLike) -> Expr:
    """The bitwise and over all 32 lanes, in every lane; integers only."""
    return _reduce("T.warp_reduce_bitand", value, lambda a, b: a & b)


@api
def warp_reduce_bitor(value: ExprLike) -> Expr:
    """The bitwise or over all 32 lanes, in every lane; integers only."""
    return _reduce("T.warp_reduce_bitor", value, lambda a, b: a | b)


def _reduce(what: str, value: ExprLike, combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """A butterfly reduction: after the step of distance d, groups of 2d lanes have the same value."""
    folded = as_expr(value)
    distance = LANES // 2
    while distance:
        other = shuffled(what, "xor", folded, distance)
        folded = current(what).bind("folded", combine(folded, other))
        distance //= 2
    return folded
