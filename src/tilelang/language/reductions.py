"""Reductions as users call them: `T.reduce_*`, and `T.reduce` with an operator or with a function.

Takes operands in any spelling, emits one operator of `ops` each, checked on the spot so that an error has the user's
line. Invariant: options that only steer a GPU's schedule are accepted and change no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilelang.errors import ProgramValueError
from tilelang.language.api import api
from tilelang.language.combining import Combine, as_many, as_tiles, combining
from tilelang.language.operators import emit_op, plain_bool, plain_int
from tilelang.language.regions import Operand, tile_dim, tile_region
from tilelang.ops.accumulator_dtype import accumulator_dtype
from tilelang.ops.combine import CombineReduce
from tilelang.ops.reduce import Reduce, ReduceOp

__all__ = [
    "reduce",
    "reduce_absmax",
    "reduce_abssum",
    "reduce_bitand",
    "reduce_bitor",
    "reduce_bitxor",
    "reduce_max",
    "reduce_min",
    "reduce_sum",
]

_Annotations = Mapping[str, object] | None


@api
def reduce(
    buffer: Operand | Sequence[Operand],
    out: Operand | Sequence[Operand],
    reduce_type: str | Combine,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: _Annotations = None,
) -> None:
    """Reduces one dimension of a tile by a named operator, or of several tiles by a function.

    `T.reduce_sum` and its kin are the usual spelling of the named operators. A function takes two values and gives
    one: `lambda a, b: a * b`. Of n tiles it takes 2 n values, those of one place and then those of another, and gives
    n: that is how a reduction carries an index along. Its order is open, so it must be associative and commutative.

    Shapes: each `out` is its `buffer` without `dim`, or with extent 1 there; all tiles have the same shape.

    Args:
        buffer: The tile, or several of them.
        out: The destination, or one for each tile.
        reduce_type: "sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor", or a function.
        dim: The dimension to reduce; negative ones count from the end.
        clear: Whether the destination's old contents are overwritten instead of combined; only of named operators.
        batch: Steers GPU targets only.
        annotations: Hints of published TileLang, which steer nothing here.

    Raises:
        ProgramValueError: The operator is unknown, the dimension does not exist or the shapes do not fit.
        ProgramError: The function does not give as many values as there are tiles.

    Example:
        `T.reduce((x, index), (best, where), lambda a, i, b, j: (T.max(a, b), T.if_then_else(a >= b, i, j)), dim=1)`
    """
    what = "T.reduce"
    if callable(reduce_type):
        del annotations
        _check_batch(what, batch)
        if not plain_bool(what, "clear", clear):
            raise ProgramValueError(
                f"{what}: clear=False with a function", hint="reduce into another tile, and combine the two in a loop"
            )
        _fold_by(what, as_tiles(what, buffer), as_tiles(what, out), reduce_type, dim)
        return
    names = [op.value for op in ReduceOp]
    if reduce_type not in names:
        raise ProgramValueError(
            f"{what}: unknown operator {reduce_type!r:.40}", hint=f"one of {', '.join(names)}, or a function"
        )
    (tile,), (target,) = as_tiles(what, buffer, 1), as_tiles(what, out, 1)
    _reduce(ReduceOp(reduce_type), tile, target, dim, clear, batch)


def _fold_by(
    what: str, buffers: Sequence[Operand], outs: Sequence[Operand], function: Callable[..., object], dim: int
) -> None:
    srcs = tuple(tile_region(tile, what) for tile in buffers)
    dsts = tuple(tile_region(tile, what, element=True) for tile in outs)
    dtypes = [accumulator_dtype(src.dtype, dst.dtype) for src, dst in zip(srcs, as_many(what, srcs, dsts), strict=True)]
    variables, body = combining(what, function, dtypes)
    emit_op(CombineReduce(what, variables, body, srcs, dsts, tile_dim(buffers[0], dim, what)))


def _reduce(
    op: ReduceOp, buffer: Operand, out: Operand, dim: int, clear: bool, batch: int, nan_propagate: bool = True
) -> None:
    what = f"T.reduce_{op.value}"
    _check_batch(what, batch)
    source, target = tile_region(buffer, what), tile_region(out, what, element=True)
    keeps = plain_bool(what, "nan_propagate", nan_propagate)
    emit_op(Reduce(op, source, target, tile_dim(buffer, dim, what), plain_bool(what, "clear", clear), keeps))


def _check_batch(what: str, batch: object) -> None:
    number = plain_int(what, "batch", batch)
    if number < 1:
        raise ProgramValueError(f"{what}: batch must be >= 1, got {number}", hint="leave it out")


@api
def reduce_sum(
    buffer: Operand, out: Operand, dim: int = -1, clear: bool = True, batch: int = 1, annotations: _Annotations = None
) -> None:
    """Sums along one dimension of a tile.

    Floats narrower than 32 bits are summed in float32 and rounded once.

    Shapes: `out` is `buffer` without `dim`, or with extent 1 there.

    Args:
        buffer: The tile.
        out: Where the sums go.
        dim: The dimension to reduce; negative ones count from the end.
        clear: False adds to what `out` holds.
        batch: Steers GPU targets only.
        annotations: Hints of published TileLang, which steer nothing here.

    Raises:
        ProgramValueError: The dimension does not exist, the shapes do not fit, or batch is below 1.

    Example:
        `T.reduce_sum(scores, row_sum, dim=1)`
    """
    _reduce(ReduceOp.SUM, buffer, out, dim, clear, batch)


@api
def reduce_max(
    buffer: Operand,
    out: Operand,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = True,
    annotations: _Annotations = None,
) -> None:
    """The largest element along one dimension of a tile.

    NaN wins. With `nan_propagate=False` it is dropped, and a line of NaN gives the least value, as an empty one does.
    Other arguments as in `T.reduce_sum`.
    """
    _reduce(ReduceOp.MAX, buffer, out, dim, clear, batch, nan_propagate)


@api
def reduce_min(
    buffer: Operand,
    out: Operand,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = True,
    annotations: _Annotations = None,
) -> None:
    """The smallest element along one dimension of a tile.

    NaN wins. With `nan_propagate=False` it is dropped, and a line of NaN gives the greatest value, as an empty one
    does. Other arguments as in `T.reduce_sum`.
    """
    _reduce(ReduceOp.MIN, buffer, out, dim, clear, batch, nan_propagate)


@api
def reduce_abssum(
    buffer: Operand,
    out: Operand,
    dim: int = -1,
    batch: int = 1,
    annotations: _Annotations = None,
    *,
    clear: bool = True,
) -> None:
    """The sum of magnitudes along one dimension of a tile. Arguments as in `T.reduce_sum`."""
    _reduce(ReduceOp.ABSSUM, buffer, out, dim, clear, batch)


@api
def reduce_absmax(
    buffer: Operand,
    out: Operand,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = True,
    annotations: _Annotations = None,
) -> None:
    """The largest magnitude along one dimension of a tile.

    NaN wins. With `nan_propagate=False` it is dropped, and a line of NaN gives 0, as an empty one does. Other arguments
    as in `T.reduce_sum`.
    """
    _reduce(ReduceOp.ABSMAX, buffer, out, dim, clear, batch, nan_propagate)


@api
def reduce_bitand(
    buffer: Operand, out: Operand, dim: int = -1, clear: bool = True, batch: int = 1, annotations: _Annotations = None
) -> None:
    """The bits set in all integers along one dimension of a tile. Arguments as in `T.reduce_sum`."""
    _reduce(ReduceOp.BITAND, buffer, out, dim, clear, batch)


@api
def reduce_bitor(
    buffer: Operand, out: Operand, dim: int = -1, clear: bool = True, batch: int = 1, annotations: _Annotations = None
) -> None:
    """The bits set in any integer along one dimension of a tile. Arguments as in `T.reduce_sum`."""
    _reduce(ReduceOp.BITOR, buffer, out, dim, clear, batch)


@api
def reduce_bitxor(
    buffer: Operand, out: Operand, dim: int = -1, clear: bool = True, batch: int = 1, annotations: _Annotations = None
) -> None:
    """The bits set in an odd number of integers along one dimension of a tile. Arguments as in `T.reduce_sum`."""
    _reduce(ReduceOp.BITXOR, buffer, out, dim, clear, batch)
