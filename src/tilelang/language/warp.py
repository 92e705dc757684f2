"""What the threads of a warp say to each other: shuffles, votes, matches and folds (level 3).

Takes scalar expressions, emits calls of warp instructions, gives their results. Invariant: every thread that `mask`
names must reach the call; the simulator reports one that does not.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.dtypes import BOOL, INT32, DType
from tilelang.errors import ProgramError
from tilelang.ir.expr import Expr, ExprLike, Var, as_bool, as_expr, binary, cast, const
from tilelang.ir.scalar import BinaryOp
from tilelang.isa.instruction import Instruction
from tilelang.isa.nvidia.warp import ACTIVE_MASK, ALL, ANY, BALLOT, ELECT, MATCH_ALL, MATCH_ANY, shuffle
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.stage import current
from tilelang.language.threads import linear_thread
from tilelang.target import WARP_SIZE

__all__ = [
    "activemask",
    "all_sync",
    "any_sync",
    "ballot_sync",
    "match_all_sync",
    "match_any_sync",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "shuffle_elect",
    "warp_reduce_bitand",
    "warp_reduce_bitor",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_sum",
]

FULL_MASK = 0xFFFFFFFF
_UINT32 = DType("uint32")


@api
def shfl_sync(value: ExprLike, src_lane: ExprLike, width: int = WARP_SIZE, mask: ExprLike = FULL_MASK) -> Expr:
    """The value that lane `src_lane` of the warp has.

    Args:
        value: What each lane offers, of any scalar dtype.
        src_lane: Which lane's value to take, counted within groups of `width` lanes.
        width: 2, 4, 8, 16 or 32.
        mask: The lanes that take part, one bit each.
    """
    return _shuffle("T.shfl_sync", "idx", value, src_lane, width, mask)


@api
def shfl_xor(value: ExprLike, offset: ExprLike, width: int = WARP_SIZE, mask: ExprLike = FULL_MASK) -> Expr:
    """The value of the lane whose number differs in the bits of `offset`. As `T.shfl_sync` otherwise."""
    return _shuffle("T.shfl_xor", "xor", value, offset, width, mask)


@api
def shfl_up(value: ExprLike, offset: ExprLike, width: int = WARP_SIZE, mask: ExprLike = FULL_MASK) -> Expr:
    """The value of the lane `offset` below; a lane that has none below keeps its own. As `T.shfl_sync` otherwise."""
    return _shuffle("T.shfl_up", "up", value, offset, width, mask)


@api
def shfl_down(value: ExprLike, offset: ExprLike, width: int = WARP_SIZE, mask: ExprLike = FULL_MASK) -> Expr:
    """The value of the lane `offset` above; a lane that has none above keeps its own. As `T.shfl_sync` otherwise."""
    return _shuffle("T.shfl_down", "down", value, offset, width, mask)


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
    """The lanes in which the condition holds, one bit each, as a uint32."""
    return _vote("T.ballot_sync", BALLOT, predicate, mask)


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


def call(what: str, instruction: Instruction, *operands: Expr) -> Var:
    """Emits the call of an instruction that has a result, and gives the result.

    Raises:
        ProgramError: It stands outside of a kernel.
    """
    result = emit_call(what, instruction, *operands, name=instruction.name)
    assert result is not None
    return result


def _shuffle(what: str, mode: str, value: ExprLike, lane: ExprLike, width: int, mask: ExprLike) -> Expr:
    operand = as_expr(value)
    if width not in (2, 4, 8, 16, 32):
        raise ProgramError(f"{what}: width is {width!r:.40}", hint="write 2, 4, 8, 16 or 32")
    dtype = INT32 if operand.dtype.is_bool else operand.dtype
    number = cast(operand, dtype)
    result = call(what, shuffle(mode, dtype), lane_mask(mask), number, cast(lane, INT32), const(width, INT32))
    return as_bool(result) if operand.dtype.is_bool else result


def _vote(what: str, instruction: Instruction, predicate: ExprLike, mask: ExprLike) -> Expr:
    return call(what, instruction, lane_mask(mask), as_bool(predicate))


def _match(what: str, instruction: Instruction, value: ExprLike, mask: ExprLike) -> Expr:
    operand = as_expr(value)
    return call(what, instruction, lane_mask(mask), cast(operand, INT32) if operand.dtype == BOOL else operand)


def lane_mask(mask: ExprLike) -> Expr:
    """A mask of lanes as instructions take it."""
    return const(mask & FULL_MASK, _UINT32) if isinstance(mask, int) else cast(mask, _UINT32)


def _fold(what: str, value: ExprLike, combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """A butterfly: after the step of distance d, groups of 2d lanes agree."""
    folded = as_expr(value)
    distance = WARP_SIZE // 2
    while distance:
        other = _shuffle(what, "xor", folded, distance, WARP_SIZE, FULL_MASK)
        folded = current(what).bind("folded", combine(folded, other))
        distance //= 2
    return folded
