"""Matrix products of tiles as users call them: `T.gemm`.

Takes operands in any spelling, emits one operator of `ops` each, checked on the spot so that an error has the user's
line. Invariant: options that only steer a GPU's schedule are accepted and change no result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, ExprLike, as_bool, as_expr
from tilelang.ir.stmt import Alloc
from tilelang.language.api import api
from tilelang.language.barriers import Barrier, barrier_region
from tilelang.language.extents import difference
from tilelang.language.operators import emit_op, plain_bool, plain_int
from tilelang.language.regions import Operand, scalar_operand, tile_region
from tilelang.language.stage import Stager, current
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import MAX_PENDING, Gemm, GemmWarpPolicy

__all__ = [
    "gemm",
]


@api
def gemm(
    A: Operand,
    B: Operand,
    C: Operand,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: ExprLike = False,
    mbar: Barrier | None = None,
    annotations: Mapping[str, object] | None = None,
    *,
    k_pack: int = 1,
    wg_wait: int = 0,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> None:
    """Adds the product of two tiles to a third: `C += op(A) @ op(B)`.

    Floats are accumulated in C's dtype, at least in float32; integers in int32. An operand in C's dtype beside one in
    a 16-bit dtype is first rounded to the other's dtype; float8_e4m3fn and float8_e5m2 multiply each other as they are.
    Any M, N and K from 1 on are legal.

    Shapes: A (M, K), or (K, M) if transposed; B (K, N), or (N, K) if transposed; C (M, N). Regions such as
    `A_s[stage]` or `Q_s[:, :d]` are operands too.

    Args:
        A: Left operand, shared or fragment.
        B: Right operand, shared or fragment.
        C: Accumulator, fragment or shared.
        transpose_A: Whether A is stored as (K, M).
        transpose_B: Whether B is stored as (N, K).
        policy: How the warps of a GPU share the tile.
        clear_accum: Whether C starts at zero; may be an expression such as `k == 0`.
        mbar: The barrier on which matrix units that work on a memory of their own (tcgen05) arrive. Products that
            accumulate in fragments and shared memory do not touch it.
        annotations: Steer GPU targets only.
        k_pack: 1 or 2, accepted for older programs: how much of K threads load at once is chosen here.
        wg_wait: Where gemms are asynchronous, how many of the latest ones may be in flight after it, itself
            included; 0 waits for all, and -1 for none: then `T.wait_wgmma` waits, before anything else touches C and
            before A or B is written. Elsewhere it means nothing: the product is over in any case.
        transpose_a: Another spelling of `transpose_A`.
        transpose_b: Another spelling of `transpose_B`.

    Raises:
        ProgramAssertionError: M, N or K of two operands differ.
        ProgramError: Dtypes, dimensions or scopes do not fit.

    Example:
        `T.gemm(A_s, B_s, C_local, transpose_B=True)`
    """
    what = "T.gemm"
    del annotations
    if mbar is not None:
        barrier_region(what, mbar)
    pending = plain_int(what, "wg_wait", wg_wait)
    if not -1 <= pending <= MAX_PENDING:
        raise ProgramError(
            f"{what}: wg_wait is {pending}",
            hint=f"write 0 to wait for the product, -1 to leave that to T.wait_wgmma, or 1 to {MAX_PENDING} products "
            "that may be in flight",
        )
    packed = plain_int(what, "k_pack", k_pack)
    if packed not in (1, 2):
        raise ProgramError(
            f"{what}: k_pack is {packed}", hint="leave it out: how much of K threads load at once is chosen here"
        )
    stager = current(what)
    op = product(what, A, B, C, (transpose_A, transpose_B, transpose_a, transpose_b), policy, clear_accum)
    a, b = (_apart(operand, op.c, stager) for operand in (op.a, op.b))
    emit_op(dataclasses.replace(op, a=a, b=b, wait=pending))


def _apart(operand: Region, sums: Region, stager: Stager) -> Region:
    """The operand, or a copy if the accumulator may overlap it: its elements are read before any of them changes."""
    if not _may_overlap(operand, sums):
        return operand
    buffer = operand.buffer
    copy = Buffer(stager.unique(f"{buffer.name}_before"), operand.extent, buffer.dtype, buffer.scope, loc=stager.loc)
    region = Region(copy, (as_expr(0),) * copy.rank, copy.shape)
    stager.emit(Alloc(copy))
    stager.emit(Copy(operand, region, loc=stager.loc))
    return region


def _may_overlap(a: Region, b: Region) -> bool:
    """Whether two regions on chip may have elements in common."""
    if a.buffer is not b.buffer:
        return a.buffer.storage is b.buffer.storage
    m, n = a.static_extent, b.static_extent
    gaps = [difference(x, y) for x, y in zip(a.start, b.start, strict=True)]
    if m is None or n is None:
        return False  # `Gemm.check` refuses it
    return all(gap is None or -m[d] < gap < n[d] for d, gap in enumerate(gaps))


def product(
    what: str,
    A: Operand,
    B: Operand,
    C: Operand,
    transposed: tuple[bool, bool, bool, bool],
    policy: GemmWarpPolicy,
    clear_accum: ExprLike,
) -> Gemm:
    """A product of tiles as the user calls it `what`; `transposed` is of A and of B, in both spellings."""
    if not isinstance(policy, GemmWarpPolicy):
        raise ProgramError(
            f"{what}: policy is {policy!r:.40}", hint="write T.GemmWarpPolicy.Square, .FullRow or .FullCol"
        )
    names = ("transpose_A", "transpose_B", "transpose_a", "transpose_b")
    flags = [plain_bool(what, name, flag) for name, flag in zip(names, transposed, strict=True)]
    clear_first = as_bool(scalar_operand(clear_accum, what, "clear_accum"))
    never = isinstance(clear_first, Const) and not clear_first.value
    a, b, c = (tile_region(operand, what) for operand in (A, B, C))
    return Gemm(a, b, c, flags[0] or flags[2], flags[1] or flags[3], None if never else clear_first, policy)
