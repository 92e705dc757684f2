"""The tile operators as users call them: `T.copy`, `T.gemm`, `T.fill` and their kin.

Takes operands in any spelling, emits one operator of `ops` each, checked on the spot so that an error has the user's
line. Invariant: options that only steer a GPU's schedule are accepted and change no result.
"""

from __future__ import annotations

import dataclasses

from tilelang.errors import ProgramError
from tilelang.ir.expr import Const, ExprLike, as_bool, as_expr, cast
from tilelang.isa.nvidia.cache_policy import EVICTIONS
from tilelang.isa.nvidia.wgmma import MOST_PENDING
from tilelang.language.api import api
from tilelang.language.loops import access_width, loop_fragment
from tilelang.language.operators import emit_op, plain_bool, plain_int
from tilelang.language.regions import Operand, align, scalar_operand, tile_region
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm, GemmWarpPolicy
from tilelang.ops.im2col import Im2Col

__all__ = [
    "async_copy",
    "c2d_im2col",
    "clear",
    "copy",
    "fill",
    "gemm",
    "im2col",
    "transpose",
]


# -- moving data ---------------------------------------------------------------------------------------------
@api
def copy(
    src: Operand,
    dst: Operand,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
    loop_layout: object = None,
) -> None:
    """Copies a tile between any two scopes, converting the dtype.

    Each side is a buffer, a region (`A[a:b, c:d]`) or an element position (`A[i, j]`), which names where the tile
    begins and takes its extents from the other side, aligned from the right. Of two positions, one at the beginning of
    a shared or fragment buffer, or of one of several tiles in it (`S[t, 0, 0]`), stands for that tile; otherwise they
    copy one element. Outside of a global tensor, reading gives 0 (or its `T.annotate_safe_value`) and writing is
    dropped.

    Shapes: equal once unit extents are dropped. Where an extent is only known when the kernel runs, the smaller of
    the two is copied.

    Args:
        src: What is read.
        dst: What is written.
        coalesced_width: Elements per access; steers GPU targets only.
        disable_tma: Steers GPU targets only.
        eviction_policy: "evict_normal", "evict_first" or "evict_last": how long the L2 cache of a GPU should keep what
            is read. A hint that the copy engine takes; other copies do as without it. The compiler chooses where it is
            left out.
        loop_layout: The `Fragment` that says which thread copies which elements; steers GPU targets only.

    Raises:
        ProgramError: The extents differ or nothing tells them, a region leaves its on-chip buffer, or an option has no
            meaning.

    Example:
        `T.copy(A[by * block_M, ko * block_K], A_s)`
    """
    what = "T.copy"
    if eviction_policy not in (None, *EVICTIONS):
        known = ", ".join(EVICTIONS)
        raise ProgramError(f"{what}: eviction_policy is {eviction_policy!r:.40}", hint=f"one of {known}")
    emit_op(
        Copy(
            *align(src, dst, what),
            coalesced_width=access_width(what, coalesced_width),
            layout=loop_fragment(what, loop_layout),
            eviction=eviction_policy,
            bulk=not plain_bool(what, "disable_tma", disable_tma),
        )
    )


@api
def async_copy(src: Operand, dst: Operand, coalesced_width: int | None = None, loop_layout: object = None) -> None:
    """A `T.copy` that a GPU may carry out in the background; whoever reads the destination sees it complete.

    Shapes, arguments and errors are those of `T.copy`.
    """
    what = "T.async_copy"
    width, layout = access_width(what, coalesced_width), loop_fragment(what, loop_layout)
    emit_op(Copy(*align(src, dst, what), coalesced_width=width, layout=layout))


@api
def transpose(src: Operand, dst: Operand) -> None:
    """`dst[j, i] = src[i, j]` for a tile of two dimensions.

    Shapes: src (M, N), dst (N, M).

    Raises:
        ProgramError: The shapes do not fit.
    """
    emit_op(Transpose(tile_region(src, "T.transpose"), tile_region(dst, "T.transpose")))


@api
def c2d_im2col(
    img: Operand,
    col: Operand,
    nhw_step: ExprLike,
    c_step: ExprLike,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: str | None = None,
) -> None:
    """One tile of the matrix whose rows are the patches of an image, as implicit GEMM convolutions need it.

    Row m of the matrix is an output pixel (n, oh, ow), column k an element (kh, kw, c) of its patch, both in
    row-major order; what lies outside of the image is 0.

    Shapes: img (N, H, W, C), col (rows, columns).

    Args:
        img: The image, a global tensor.
        col: The tile to fill, in shared memory.
        nhw_step: Which tile of rows.
        c_step: Which tile of columns.
        kernel: Extent of the square window.
        stride: Step of the window.
        dilation: Distance of neighbors within the window.
        pad: Zeros around the image.

    Raises:
        ProgramError: The tile is not two-dimensional, or a size is no plain int.
    """
    what = "T.c2d_im2col"
    rows, columns = as_expr(nhw_step), as_expr(c_step)
    named = (("kernel", kernel), ("stride", stride), ("dilation", dilation), ("pad", pad))
    sizes = [plain_int(what, name, value) for name, value in named]
    emit_op(Im2Col(tile_region(img, what), tile_region(col, what), rows, columns, *sizes))


im2col = c2d_im2col


# -- matrix product ------------------------------------------------------------------------------------------
@api
def gemm(
    A: Operand,
    B: Operand,
    C: Operand,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: ExprLike = False,
    k_pack: int = 1,
    wg_wait: int = 0,
    *,
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
        k_pack: Steers GPU targets only.
        wg_wait: Where products are asynchronous, how many of the newest ones may be under way behind it, itself
            included; 0 waits for all, and -1 for none: then `T.wait_wgmma` waits, before anything else touches C and
            before A or B is written. Elsewhere it means nothing: the product is over in any case.
        transpose_a: Another spelling of `transpose_A`.
        transpose_b: Another spelling of `transpose_B`.

    Raises:
        ProgramError: Shapes, dtypes or scopes do not fit.

    Example:
        `T.gemm(A_s, B_s, C_local, transpose_B=True)`
    """
    what = "T.gemm"
    pending = plain_int(what, "wg_wait", wg_wait)
    if not -1 <= pending <= MOST_PENDING:
        raise ProgramError(
            f"{what}: wg_wait is {pending}",
            hint=f"write 0 to wait for the product, -1 to leave that to T.wait_wgmma, or 1 to {MOST_PENDING} products "
            "that may be under way",
        )
    made = product(what, A, B, C, (transpose_A, transpose_B, transpose_a, transpose_b), policy, clear_accum)
    emit_op(dataclasses.replace(made, wait=pending))


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


# -- filling ---------------------------------------------------------------------------------------------------
@api
def fill(buffer: Operand, value: ExprLike) -> None:
    """Sets every element of a buffer or region to one value, converted to its dtype.

    Shapes: any; the value is a scalar.

    Raises:
        ProgramError: The value is a tile or no number, or the region leaves its on-chip buffer.

    Example:
        `T.fill(scores_max, -T.infinity(T.float32))`
    """
    _fill("T.fill", buffer, value)


@api
def clear(buffer: Operand) -> None:
    """Sets every element of a buffer or region to zero.

    Shapes: any.

    Raises:
        ProgramError: The region leaves its on-chip buffer.

    Example:
        `T.clear(C_local)`
    """
    _fill("T.clear", buffer, 0)


def _fill(what: str, buffer: Operand, value: ExprLike) -> None:
    region = tile_region(buffer, what, element=True)
    expr = as_expr(scalar_operand(value, what, "the value"))
    emit_op(Fill(region, cast(expr, region.dtype) if region.dtype.lanes == 1 else expr))
