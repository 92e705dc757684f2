"""Scans as users call them: `T.cumsum`, `T.cummax`, and `T.associative_scan` with any associative function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilelang.errors import ProgramValueError
from tilelang.ir.expr import ExprLike, as_expr, cast
from tilelang.language.api import api
from tilelang.language.combining import Combine, as_many, as_tiles, combining
from tilelang.language.operators import emit_op, plain_bool
from tilelang.language.regions import Operand, scalar_operand, tile_dim, tile_region
from tilelang.language.stage import current
from tilelang.ops.accumulator_dtype import accumulator_dtype
from tilelang.ops.scan import Scan, ScanOp, named_scan

__all__ = [
    "associative_scan",
    "cummax",
    "cumsum",
]

_Annotations = Mapping[str, object] | None


@api
def cumsum(
    src: Operand,
    dst: Operand | None = None,
    dim: int = 0,
    reverse: bool = False,
    annotations: _Annotations = None,
) -> None:
    """Running sums along one dimension of a tile, from its end if `reverse`.

    Shapes: dst has the shape of src; without `dst` the sums replace `src`.

    Args:
        src: The tile.
        dst: Where the running sums go; may be `src` itself.
        dim: The dimension to run along; negative ones count from the end.
        reverse: Whether to run from the end.
        annotations: Hints of published TileLang, which steer nothing here.

    Raises:
        ProgramValueError: The dimension does not exist or the shapes differ.
    """
    _scan(ScanOp.SUM, src, dst, dim, reverse)


@api
def cummax(
    src: Operand,
    dst: Operand | None = None,
    dim: int = 0,
    reverse: bool = False,
    annotations: _Annotations = None,
) -> None:
    """Running maxima along one dimension of a tile; NaN wins from where it appears. Arguments as in `T.cumsum`."""
    _scan(ScanOp.MAX, src, dst, dim, reverse)


def _scan(op: ScanOp, src: Operand, dst: Operand | None, dim: int, reverse: bool) -> None:
    what = f"T.cum{op.value}"
    source = tile_region(src, what)
    target = source if dst is None else tile_region(dst, what)
    emit_op(named_scan(op, source, target, tile_dim(src, dim, what), reverse=plain_bool(what, "reverse", reverse)))


@api
def associative_scan(
    src: Operand | Sequence[Operand],
    dst: Operand | Sequence[Operand] | None,
    combine: Combine,
    dim: int = -1,
    reverse: bool = False,
    exclusive: bool = False,
    init: ExprLike | Sequence[ExprLike] | None = None,
) -> None:
    """Running results of any associative function along one dimension of a tile, or of several together.

    Place i gets what the elements up to i make: `combine(combine(x0, x1), x2)` and so on, in any grouping. Of n tiles
    the function takes 2 n values, those of earlier places and then those of the later place, and gives n. It is an
    expression of its parameters; running values of floats have at least 32 bits.

    Shapes: all tiles have the same shape.

    Args:
        src: The tile, or several of them.
        dst: Where the results go, one tile for each; without it they replace `src`.
        combine: The function; it need not be commutative.
        dim: The dimension to run along; negative ones count from the end.
        reverse: Whether to run from the end; the first values are then those nearer to the end.
        exclusive: Whether place i gets what is made of `init` and the elements before it.
        init: What stands in front of the first element of an exclusive scan, a scalar for each tile.

    Raises:
        ProgramValueError: The dimension does not exist, the shapes differ, or `init` is there where it is not needed.
        ProgramError: The function does not give as many values as there are tiles, or reads memory.

    Example:
        `T.associative_scan((decay, x), None, lambda a0, h0, a1, h1: (a0 * a1, h0 * a1 + h1), dim=1)`
    """
    what = "T.associative_scan"
    tiles = as_tiles(what, src)
    srcs = tuple(tile_region(tile, what) for tile in tiles)
    dsts = srcs if dst is None else tuple(tile_region(tile, what) for tile in as_tiles(what, dst))
    dtypes = [accumulator_dtype(a.dtype, b.dtype) for a, b in zip(srcs, as_many(what, srcs, dsts), strict=True)]
    variables, body = combining(what, combine, dtypes)
    given = () if init is None else tuple(init) if isinstance(init, tuple | list) else (init,)
    if len(given) != (len(srcs) if plain_bool(what, "exclusive", exclusive) else 0):
        raise ProgramValueError(
            f"{what}: exclusive={exclusive} with {len(given)} values of init for {len(srcs)} tiles",
            hint="an exclusive scan needs one init for each tile, as in init=0; any other needs none",
        )
    first = tuple(
        current(what).bind("init", cast(as_expr(scalar_operand(value, what, "init")), dtype))
        for value, dtype in zip(given, dtypes, strict=False)
    )
    backwards = plain_bool(what, "reverse", reverse)
    emit_op(Scan(what, variables, body, srcs, dsts, tile_dim(tiles[0], dim, what), backwards, first))
