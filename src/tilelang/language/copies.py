"""Copies of tiles as users call them: `T.copy`, `T.async_copy`, `T.transpose`, `T.im2col`.

Takes operands in any spelling, emits one operator of `ops` each, checked on the spot so that an error has the user's
line. Invariant: options that only steer a GPU's schedule are accepted and change no result.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, ProgramValueError, warn
from tilelang.ir.buffer import Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Binary, Expr, ExprLike, Load, Var, as_expr, cast, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import ParallelLoop, Store
from tilelang.ir.visit import walk_expr
from tilelang.language.api import api
from tilelang.language.loops import access_width, loop_fragment
from tilelang.language.operators import emit_op, plain_bool, plain_int
from tilelang.language.regions import Operand, Repeated, align, repeated, tile_region
from tilelang.language.stage import current
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.im2col import Im2Col

__all__ = [
    "async_copy",
    "c2d_im2col",
    "copy",
    "im2col",
    "transpose",
]

EVICTIONS = ("evict_normal", "evict_first", "evict_last")  # eviction priorities of cache hints
_INSTRUCTIONS = ("tma", "cp_async", "sync")


@api
def copy(
    src: Operand,
    dst: Operand,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
    prefer_instruction: str | None = None,
    annotations: Mapping[str, object] | None = None,
    loop_layout: object = None,
) -> None:
    """Copies a tile between any two scopes, converting the dtype.

    Each side is a buffer, a region (`A[a:b, c:d]`) or an element position (`A[i, j]`), which names where the tile
    begins and takes its extents from the other side, aligned from the right. Two positions copy one element, as an
    assignment does, in `T.Parallel` too. Outside of a global tensor, reading gives 0 (or its `T.annotate_safe_value`)
    and writing is dropped.

    Shapes: whole buffers have equal shapes. Otherwise the extents that are not 1 are paired in order, and the side in
    the innermost memory (fragment and local, then shared, then global; the source if both are in one) says how many
    elements are copied: its extents count for both sides, from where each begins, and only the end of a tensor is an
    end. A source of which elements would be left out is an error. A source whose extent is 1 where the destination's is
    not, aligned from the right, is repeated along that dimension.

    Args:
        src: What is read.
        dst: What is written.
        coalesced_width: Elements per access; steers GPU targets only.
        disable_tma: Steers GPU targets only.
        eviction_policy: "evict_normal", "evict_first" or "evict_last": how long the L2 cache of a GPU should keep what
            is read. A hint that the copy engine takes; other copies do as without it. The compiler chooses where it is
            left out.
        prefer_instruction: "tma", "cp_async" or "sync": a hint that is followed where it can be.
        annotations: A dict of the same options, which win over the keywords.
        loop_layout: The `Fragment` that says which thread copies which elements; steers GPU targets only.

    Raises:
        ProgramValueError: The extents do not fit.
        ProgramError: A region leaves its on-chip buffer, or an option has no meaning.

    Example:
        `T.copy(A[by * block_M, ko * block_K], A_s)`
    """
    what = "T.copy"
    given = steering(
        what,
        annotations,
        coalesced_width=coalesced_width,
        disable_tma=disable_tma,
        eviction_policy=eviction_policy,
        prefer_instruction=prefer_instruction,
        loop_layout=loop_layout,
    )
    prefer = given["prefer_instruction"]
    if prefer not in (None, *_INSTRUCTIONS):
        raise ProgramValueError(
            f"{what}: prefer_instruction is {prefer!r:.40}", hint=f"one of {', '.join(_INSTRUCTIONS)}"
        )
    if isinstance(src, Load) and isinstance(dst, Load) and annotations is None:
        _copy_element(src, dst)
        return
    spread = repeated(src, dst)
    if spread is not None:
        _repeat(spread)
        return
    forbidden = plain_bool(what, "disable_tma", given["disable_tma"]) or prefer in ("cp_async", "sync")
    emit_op(
        Copy(
            *align(src, dst, what),
            coalesced_width=access_width(what, given["coalesced_width"]),
            layout=loop_fragment(what, given["loop_layout"]),
            eviction=given["eviction_policy"],  # type: ignore[arg-type]
            allow_bulk=not forbidden,
        )
    )


def _copy_element(src: Load, dst: Load) -> None:
    """A copy between two positions, which is an assignment; a warning where a tile may have been meant."""
    stager = current("T.copy")
    once_a_block = not stager.loops and stager.hints is not None and stager.hints.thread is None
    if once_a_block and src.buffer.scope is dst.buffer.scope is Scope.GLOBAL:
        places = [f"{side.buffer.name}[{', '.join(map(str, side.indices))}]" for side in (src, dst)]
        extents = ", ".join(f"{index} : {index} + {_step(index)}" for index in src.indices)
        warn(
            f"T.copy: copies one element per block, since neither {places[0]} nor {places[1]} says how large a tile is",
            stager.loc,
            hint=f"give one of them extents, as in {src.buffer.name}[{extents}], or write {places[1]} = "
            f"{places[0]} for one element",
        )
    stager.emit(Store(dst.buffer, dst.indices, cast(src, dst.dtype)))


def _step(index: Expr) -> int:
    """By how much an index grows from block to block, which is how large a tile is; 64 if it does not say."""
    factors = (e.b for e in walk_expr(index) if isinstance(e, Binary) and e.op is BinaryOp.MUL)
    return next(filter(None, map(int_const, factors)), 64)


def _repeat(spread: Repeated) -> None:
    """A copy of a source with fewer elements than the destination has, element by element."""
    src, dst = spread.src, spread.dst
    variables = tuple(Var(f"i{d}", INT32, index=True) for d in range(len(dst.extent)))
    into = tuple(start + var for start, var in zip(dst.start, variables, strict=True))
    out_of = tuple(
        start if axis is None else start + variables[axis] for start, axis in zip(src.start, spread.axes, strict=True)
    )
    stager = current("T.copy")
    store = Store(dst.buffer, into, cast(Load(src.buffer, out_of, src.dtype), dst.dtype), loc=stager.loc)
    stager.emit(ParallelLoop(variables, dst.extent, as_body([store])))


def steering(what: str, annotations: Mapping[str, object] | None, **keywords: object) -> dict[str, object]:
    """The options of a copy: what the annotations say, else the keywords. Other annotations say nothing here.

    Raises:
        ProgramError: The annotations are no dict.
        ProgramValueError: `eviction_policy` has no meaning.
    """
    if annotations is not None and not isinstance(annotations, Mapping):
        raise ProgramError(f"{what}: annotations are {annotations!r:.40}, not a dict", hint="write a dict")
    given = {**keywords, **{name: value for name, value in (annotations or {}).items() if name in keywords}}
    policy = given.get("eviction_policy")
    if policy not in (None, *EVICTIONS):
        raise ProgramValueError(f"{what}: eviction_policy is {policy!r:.40}", hint=f"one of {', '.join(EVICTIONS)}")
    return given


@api
def async_copy(
    src: Operand,
    dst: Operand,
    *,
    coalesced_width: int | None = None,
    annotations: Mapping[str, object] | None = None,
    loop_layout: object = None,
) -> None:
    """Begins a `T.copy` from global to shared memory that a GPU carries out asynchronously.

    `T.ptx_wait_group` waits for it. Where a program reads the tile before, the compiler waits.

    Shapes and arguments are those of `T.copy`.

    Raises:
        ProgramValueError: The extents do not fit, or the sides are in other memories.
    """
    what = "T.async_copy"
    given = steering(what, annotations, coalesced_width=coalesced_width, loop_layout=loop_layout)
    source, target = align(src, dst, what)
    scopes = source.buffer.scope, target.buffer.scope
    if scopes != (Scope.GLOBAL, Scope.SHARED):
        raise ProgramValueError(
            f"{what}: only supports global->shared, but this one is from '{source.buffer.name}' ({scopes[0].value}) to "
            f"'{target.buffer.name}' ({scopes[1].value})",
            hint="write T.copy",
        )
    width, layout = access_width(what, given["coalesced_width"]), loop_fragment(what, given["loop_layout"])
    emit_op(Copy(source, target, coalesced_width=width, layout=layout, allow_bulk=False))


@api
def transpose(src: Operand, dst: Operand, annotations: Mapping[str, object] | None = None) -> None:
    """`dst[..., j, i] = src[..., i, j]`: the last two dimensions change places.

    Shapes: src (..., M, N), dst (..., N, M).

    Args:
        src: What is read.
        dst: What is written.
        annotations: Steer GPU targets only.

    Raises:
        ProgramError: The shapes do not fit.
    """
    del annotations
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
    annotations: Mapping[str, object] | None = None,
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
        eviction_policy: "evict_normal", "evict_first" or "evict_last"; steers GPU targets only.
        annotations: Steer GPU targets only.

    Raises:
        ProgramError: The tile is not two-dimensional, or a size is no plain int.
    """
    what = "T.c2d_im2col"
    steering(what, annotations, eviction_policy=eviction_policy)
    rows, columns = as_expr(nhw_step), as_expr(c_step)
    named = (("kernel", kernel), ("stride", stride), ("dilation", dilation), ("pad", pad))
    sizes = [plain_int(what, name, value) for name, value in named]
    emit_op(Im2Col(tile_region(img, what), tile_region(col, what), rows, columns, *sizes))


im2col = c2d_im2col
