"""What the threads of a warp say to each other: shuffles, votes, matches and folds (level 3).

Takes scalar expressions, emits calls of warp instructions, gives their results. Invariant: every thread that `mask`
names must reach the call; the simulator reports one that does not.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.dtypes import BOOL, INT32, DType
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Expr, ExprLike, as_expr, binary, cast
from tilelang.ir.scalar import BinaryOp
from tilelang.isa.instruction import Instruction
from tilelang.language.api import api
from tilelang.language.lanes import FULL_MASK, as_predicate, call, lane_mask, shuffled
from tilelang.language.stage import current
from tilelang.language.threads import WARP_SIZE, linear_thread
from tilelang.targets.gpu.isa.warp import ACTIVE_MASK, ALL, ANY, BALLOT, ELECT, MATCH_ALL, MATCH_ANY

__all__ = [
    "activemask",
    "all_sync",
    "any_sync",
    "ballot",
    "ballot_sync",
    "match_all_sync",
    "match_any_sync",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "shuffle_elect",
    "tvm_warp_activemask",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up",
    "warp_reduce_bitand",
    "warp_reduce_bitor",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_sum",
]

_UINT64 = DType("uint64")


@api
def shfl_sync(value: ExprLike, srcLane: ExprLike, width: int = WARP_SIZE, mask: ExprLike = FULL_MASK) -> Expr:
    """The value that lane `srcLane` of the warp has.

    Args:
        value: What each lane offers, of any scalar dtype.
        srcLane: Which lane's value to take, counted within groups of `width` lanes.
        width: 1, 2, 4, 8, 16 or 32.
        mask: The lanes that take part, one bit each.
    """
    return shuffled("T.shfl_sync", "idx", value, srcLane, width, mask)


@api
def shfl_xor(value: ExprLike, delta: ExprLike, width: int = WARP_SIZE, mask: ExprLike = FULL_MASK) -> Expr:
    """The value of the lane whose number differs in the bits of `delta`. As `T.shfl_sync` otherwise."""
    return shuffled("T.shfl_xor", "xor", value, delta, width, mask)


@api
def shfl_up(value: ExprLike, delta: ExprLike, width: int = WARP_SIZE, mask: ExprLike = FULL_MASK) -> Expr:
    """The value of the lane `delta` below; a lane that has none below keeps its own. As `T.shfl_sync` otherwise."""
    return shuffled("T.shfl_up", "up", value, delta, width, mask)


@api
def shfl_down(value: ExprLike, delta: ExprLike, width: int = WARP_SIZE, mask: ExprLike = FULL_MASK) -> Expr:
    """The value of the lane `delta` above; a lane that has none above keeps its own. As `T.shfl_sync` otherwise."""
    return shuffled("T.shfl_down", "down", value, delta, width, mask)


@api
def any_sync(predicate: ExprLike, mask: ExprLike = FULL_MASK) -> Expr:
    """Whether the condition holds in at least one of the lanes that take part."""
    return _vote("T.any_sync", ANY, predicate, mask)


@api
def all_sync(predicate: ExprLike, mask: ExprLike = FULL_MASK) -> Expr:
    """Whether the condition holds in all of the lanes that take part."""
    return _vote("T.all_sync", ALL, predicate, mask)


@api
def ballot_sync(predicate: ExprLike, mask: ExprLike = FULL_MASK) -> Expr:
    """The lanes in which the condition holds, one bit each, as a uint64.

    Raises:
        ProgramTypeError: The predicate is neither an integer nor a bool.
    """
    return cast(_vote("T.ballot_sync", BALLOT, predicate, mask), _UINT64)


@api
def ballot(predicate: ExprLike) -> Expr:
    """`T.ballot_sync` of all lanes of the warp."""
    return cast(_vote("T.ballot", BALLOT, predicate, FULL_MASK), _UINT64)


@api
def shuffle_elect(thread_extent: int = WARP_SIZE) -> Expr:
    """Whether the executing thread is the one that is chosen among so many neighbors; all of them must come here.

    Args:
        thread_extent: A multiple of 32, of which the threads of the block are groups; 0 for the whole block.

    Raises:
        ProgramError: It is no such number.

    Example:
        `if T.shuffle_elect(128): T.barrier_arrive(full)`
    """
    what = "T.shuffle_elect"
    if isinstance(thread_extent, bool) or not isinstance(thread_extent, int) or thread_extent % WARP_SIZE:
        raise ProgramError(f"{what}: {thread_extent!r:.40} threads", hint="write 32, 64, 128 or 0 for the whole block")
    elected = call(what, ELECT, lane_mask(FULL_MASK))
    thread = linear_thread(what)
    if thread_extent == WARP_SIZE:
        return elected
    place = thread if thread_extent == 0 else thread % thread_extent
    return binary(BinaryOp.AND, place < WARP_SIZE, elected)


@api
def match_any_sync(value: ExprLike, mask: ExprLike = FULL_MASK) -> Expr:
    """The lanes that have the same value as this one, one bit each, as a uint32."""
    return _match("T.match_any_sync", MATCH_ANY, value, mask)


@api
def match_all_sync(value: ExprLike, mask: ExprLike = FULL_MASK) -> Expr:
    """`mask` if all lanes that take part have the same value, else 0, as a uint32."""
    return _match("T.match_all_sync", MATCH_ALL, value, mask)


@api
def activemask() -> Expr:
    """The lanes of the warp that execute this together, one bit each, as a uint32."""
    return call("T.activemask", ACTIVE_MASK)


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


# -- under the names of TVM, whose operands stand in another order -------------------------------------------------
@api
def tvm_warp_shuffle(mask: ExprLike, value: ExprLike, lane: ExprLike, width: int, warp_size: int = WARP_SIZE) -> Expr:
    """`T.shfl_sync(value, lane, width, mask)`."""
    return _tvm_shuffle("T.tvm_warp_shuffle", "idx", mask, value, lane, width, warp_size)


@api
def tvm_warp_shuffle_up(
    mask: ExprLike, value: ExprLike, offset: ExprLike, width: int, warp_size: int = WARP_SIZE
) -> Expr:
    """`T.shfl_up(value, offset, width, mask)`."""
    return _tvm_shuffle("T.tvm_warp_shuffle_up", "up", mask, value, offset, width, warp_size)


@api
def tvm_warp_shuffle_down(
    mask: ExprLike, value: ExprLike, offset: ExprLike, width: int, warp_size: int = WARP_SIZE
) -> Expr:
    """`T.shfl_down(value, offset, width, mask)`."""
    return _tvm_shuffle("T.tvm_warp_shuffle_down", "down", mask, value, offset, width, warp_size)


@api
def tvm_warp_activemask() -> Expr:
    """The same as `T.activemask`."""
    return call("T.tvm_warp_activemask", ACTIVE_MASK)


def _tvm_shuffle(
    what: str, mode: str, mask: ExprLike, value: ExprLike, lane: ExprLike, width: int, warp_size: int
) -> Expr:
    if warp_size != WARP_SIZE:
        raise ProgramValueError(f"{what}: a warp has {WARP_SIZE} lanes, not {warp_size!r:.40}")
    return shuffled(what, mode, value, lane, width, mask)


def _vote(what: str, instruction: Instruction, predicate: ExprLike, mask: ExprLike) -> Expr:
    return call(what, instruction, lane_mask(mask), as_predicate(what, predicate))


def _match(what: str, instruction: Instruction, value: ExprLike, mask: ExprLike) -> Expr:
    operand = as_expr(value)
    if operand.dtype.is_float and what.startswith("T.match"):
        raise ProgramTypeError(f"{what}: requires an integer or boolean predicate, got {operand.dtype!s}")
    return call(what, instruction, lane_mask(mask), cast(operand, INT32) if operand.dtype == BOOL else operand)


def _fold(what: str, value: ExprLike, combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """A butterfly: after the step of distance d, groups of 2d lanes agree."""
    folded = as_expr(value)
    distance = WARP_SIZE // 2
    while distance:
        other = shuffled(what, "xor", folded, distance, WARP_SIZE, FULL_MASK)
        folded = current(what).bind("folded", combine(folded, other))
        distance //= 2
    return folded
