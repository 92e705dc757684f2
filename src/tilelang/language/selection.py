"""Tiles in order and elements by place: `T.argmax`, `T.argmin`, `T.sort`, `T.topk`, `T.gather`, `T.scatter`."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import ProgramValueError
from tilelang.language.api import api
from tilelang.language.combining import as_tiles
from tilelang.language.operators import emit_op, plain_bool, plain_int
from tilelang.language.regions import Operand, tile_dim, tile_region
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.gather_scatter import GatherRows, ScatterRows
from tilelang.ops.reduce import ReduceOp
from tilelang.ops.sort import Sort, TopK

__all__ = [
    "argmax",
    "argmin",
    "gather",
    "scatter",
    "sort",
    "topk",
]


@api
def argmax(src: Operand, dst: Operand, dim: int = -1, values: Operand | None = None) -> None:
    """Where the largest element along one dimension of a tile is.

    Of equal elements the first counts, and NaN is the largest, as in NumPy.

    Shapes: `dst`, and `values` if given, are `src` without `dim`, or with extent 1 there.

    Args:
        src: The tile.
        dst: Where the indices go, integers counted from the beginning of the tile.
        dim: The dimension; negative ones count from the end.
        values: Where the elements themselves go.

    Raises:
        ProgramValueError: The dimension does not exist or has no elements, the shapes do not fit, or `dst` holds
            floats.

    Example:
        `T.argmax(logits, best, dim=1)`
    """
    _arg_reduce(ReduceOp.MAX, src, dst, dim, values)


@api
def argmin(src: Operand, dst: Operand, dim: int = -1, values: Operand | None = None) -> None:
    """Where the smallest element along one dimension of a tile is; the first NaN, if there is one.

    Arguments as in `T.argmax`.
    """
    _arg_reduce(ReduceOp.MIN, src, dst, dim, values)


def _arg_reduce(op: ReduceOp, src: Operand, dst: Operand, dim: int, values: Operand | None) -> None:
    what = f"T.arg{op.value}"
    kept = None if values is None else tile_region(values, what, element=True)
    emit_op(ArgReduce(op, tile_region(src, what), tile_region(dst, what, element=True), tile_dim(src, dim, what), kept))


@api
def sort(
    src: Operand,
    dst: Operand | None = None,
    dim: int = -1,
    descending: bool = False,
    indices: Operand | None = None,
    payload: Operand | Sequence[Operand] | None = None,
) -> None:
    """Puts the elements along the last dimension of a tile in order.

    NaN counts as greater than anything, and equal elements stay in the order in which they were, also if `descending`.

    Shapes: all tiles have the shape of `src`, whose extents are constant.

    Args:
        src: The keys.
        dst: Where they go in order; without it they replace `src`.
        dim: The last dimension.
        descending: Whether the greatest come first.
        indices: Where the places go at which the elements were, integers.
        payload: A tile, or several, whose elements move with the keys, in place.

    Raises:
        ProgramValueError: It is another dimension, the shapes differ or are not constant, or `indices` holds floats.

    Example:
        `T.sort(scores, descending=True, indices=order)`
    """
    what = "T.sort"
    keys = tile_region(src, what)
    target = keys if dst is None else tile_region(dst, what)
    moved = () if payload is None else as_tiles(what, payload)
    emit_op(
        Sort(
            keys,
            _last_dim(what, src, dim),
            plain_bool(what, "descending", descending),
            target,
            None if indices is None else tile_region(indices, what),
            payload=tuple(tile_region(tile, what) for tile in moved),
        )
    )


@api
def topk(
    src: Operand, k: int, values: Operand | None, indices: Operand | None = None, dim: int = -1, largest: bool = True
) -> None:
    """The k largest elements along the last dimension of a tile, the largest first, and where they are.

    NaN counts as greater than anything, and of equal elements the first counts.

    Shapes: `values` and `indices` have the shape of `src` with extent k in its last dimension; the extents of `src` are
    constant.

    Args:
        src: The tile.
        k: How many, a number known while the kernel is staged.
        values: Where the elements go; None if only their places are wanted.
        indices: Where their places go, integers.
        dim: The last dimension.
        largest: False asks for the k smallest, the smallest first.

    Raises:
        ProgramValueError: k is below 1 or above the extent, it is another dimension, the shapes do not fit, or
            `indices` holds floats.

    Example:
        `T.topk(gates, 8, weights, experts)`
    """
    what = "T.topk"
    kept, places = (None if tile is None else tile_region(tile, what, element=True) for tile in (values, indices))
    last, backwards, count = _last_dim(what, src, dim), plain_bool(what, "largest", largest), plain_int(what, "k", k)
    emit_op(TopK(tile_region(src, what), last, backwards, kept, places, count=count))


def _last_dim(what: str, src: Operand, dim: int) -> int:
    last = tile_dim(src, -1, what)
    if tile_dim(src, dim, what) != last:
        raise ProgramValueError(
            f"{what}: dim is {dim}, but elements are put in order along the last dimension",
            hint="exchange the dimensions with T.transpose",
        )
    return last


@api
def gather(src: Operand, index: Operand, dst: Operand, dim: int = 0) -> None:
    """Rows of a tensor that an index tile names: `dst[i, :] = src[index[i], :]`.

    A row that lies outside of `src` reads as outside of any tensor, 0. Indices count from the beginning of `src`,
    which may be a region: its other dimensions say which part of each row is wanted.

    Shapes: `index` has one dimension, n; `dst` is `src` with extent n in dimension `dim`.

    Args:
        src: The tensor, in global or on-chip memory.
        index: Integers; their tile may be in any memory.
        dst: Where the rows go.
        dim: The dimension that is indexed; others make a row.

    Raises:
        ProgramValueError: The dimension does not exist, the shapes do not fit, or `index` holds floats.

    Example:
        `T.gather(X[:, k * 64 : k * 64 + 64], tokens, X_s)`
    """
    what = "T.gather"
    regions = tile_region(src, what), tile_region(index, what, element=True), tile_region(dst, what, element=True)
    emit_op(GatherRows(*regions, tile_dim(src, dim, what)))


@api
def scatter(src: Operand, index: Operand, dst: Operand, dim: int = 0) -> None:
    """Writes rows to the places of a tensor that an index tile names: `dst[index[i], :] = src[i, :]`.

    A row that lies outside of `dst` is dropped. Of several rows with one index any may remain; to add them up, loop
    over elements with T.atomic_add.

    Shapes: `index` has one dimension, n; `src` is `dst` with extent n in dimension `dim`.

    Args:
        src: The rows.
        index: Integers; their tile may be in any memory.
        dst: The tensor, in global or on-chip memory, or a region of it.
        dim: The dimension that is indexed; others make a row.

    Raises:
        ProgramValueError: The dimension does not exist, the shapes do not fit, or `index` holds floats.

    Example:
        `T.scatter(Y_s, tokens, Y)`
    """
    what = "T.scatter"
    regions = tile_region(dst, what), tile_region(index, what, element=True), tile_region(src, what, element=True)
    emit_op(ScatterRows(*regions, tile_dim(dst, dim, what)))
