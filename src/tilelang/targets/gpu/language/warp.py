"""What the threads of a warp make of several instructions: folds, and the choice of one thread (level 3).

Takes scalar expressions, emits calls of warp instructions, gives their results. Invariant: every thread of the warp
must reach the call; the simulator reports one that does not.
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
    """Whether the executing thread is the one that is chosen among so many neighbors; all of them must come here.

    Args:
        thread_extent: A multiple of 32, of which the threads of the block are groups; 0 for the whole block.

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
    place = thread if thread_extent == 0 else thread % thread_extent
    return binary(BinaryOp.AND, place < LANES, elected)


@api
def warp_reduce_sum(value: ExprLike) -> Expr:
    """The sum of the values of all 32 lanes, in every lane."""
    return _fold("T.warp_reduce_sum", value, lambda a, b: a + b)


@api
def warp_reduce_max(value: ExprLike) -> Expr:
    """The largest of the values of all 32 lanes, in every lane; NaN wins."""
    return _fold("T.warp_reduce_max", value, lambda a, b: binary(BinaryOp.MAX, a, b))


@api
def warp_reduce_min(value: ExprLike) -> Expr:
    """The smallest of the values of all 32 lanes, in every lane; NaN wins."""
    return _fold("T.warp_reduce_min", value, lambda a, b: binary(BinaryOp.MIN, a, b))


@api
def warp_reduce_bitand(value: ExprLike) -> Expr:
    """The bits that are set in the values of all 32 lanes, in every lane; integers only."""
    return _fold("T.warp_reduce_bitand", value, lambda a, b: a & b)


@api
def warp_reduce_bitor(value: ExprLike) -> Expr:
    """The bits that are set in any of the values of the 32 lanes, in every lane; integers only."""
    return _fold("T.warp_reduce_bitor", value, lambda a, b: a | b)


def _fold(what: str, value: ExprLike, combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """A butterfly: after the step of distance d, groups of 2d lanes agree."""
    folded = as_expr(value)
    distance = LANES // 2
    while distance:
        other = shuffled(what, "xor", folded, distance)
        folded = current(what).bind("folded", combine(folded, other))
        distance //= 2
    return folded
