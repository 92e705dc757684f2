"""Normalization of rows that arrive in tiles: `T.online_softmax`, as attention needs it."""

from __future__ import annotations

from tilelang.ir.expr import ExprLike, as_expr, cast
from tilelang.language.api import api
from tilelang.language.operators import emit_op
from tilelang.language.regions import Operand, scalar_operand, tile_region
from tilelang.language.stage import current
from tilelang.ops.online_softmax import OnlineSoftmax

__all__ = ["online_softmax"]


@api
def online_softmax(
    scores: Operand,
    output: Operand,
    row_max: Operand,
    row_sum: Operand,
    scale: ExprLike = 1.0,
    probabilities: Operand | None = None,
) -> None:
    """Adds a tile of scores to a running softmax over rows, and rescales the accumulator of the values to fit.

    In front of the loop `output` and `row_sum` are 0, and `row_max` is -inf. In each iteration the product of the
    probabilities and a tile of values is added to `output` after this call. After the loop `output / row_sum` is
    `softmax(scale * scores) @ values`, and `scale * row_max + log(row_sum)` the logarithm of the sum of exponentials.

    Until then probabilities are relative to `row_max`, which need not be the largest score: it moves, and the row is
    rescaled, only where an exponential would exceed 2 ** 8. Where gemms of a pipelined loop run beside its threads, and
    these are 384 for 192 rows, most iterations do not even look for the largest score, as `kernel.explain()` says: they
    add up the exponentials, and where a sum exceeds 2 ** 15, as in float16 it must not, or 2 ** 48 in bfloat16, the
    gemm of the scores is computed again and the step taken as elsewhere. Scores of -inf (masked ones) have probability
    0; a row of nothing else has a `row_sum` of 0, and NaN and +inf make their row NaN.

    Shapes: scores and probabilities (M, N), output (M, K), row_max and row_sum (M,); constant extents, on chip.

    Args:
        scores: The tile, of float32 or float64; overwritten.
        output: The accumulator of probabilities @ values, of the dtype of scores.
        row_max: What exponentials of each row are relative to, about its largest score; of the same dtype.
        row_sum: The running sum of the exponentials of each row, of the same dtype.
        scale: What scores are multiplied by, a positive scalar.
        probabilities: Where these go, of any floating-point dtype; without it they replace the scores.

    Raises:
        ProgramTypeError: The dtypes do not fit.
        ProgramValueError: The shapes do not fit, a tile is in global memory, or the scale is not positive.

    Example:
        `T.online_softmax(S, O, row_max, row_sum, scale=dim**-0.5, probabilities=P)`
    """
    what = "T.online_softmax"
    tile = tile_region(scores, what)
    given = as_expr(scalar_operand(scale, what, "scale"))
    factor = current(what).bind("scale", cast(given, tile.dtype) if tile.dtype.is_float else given)
    target = None if probabilities is None else tile_region(probabilities, what)
    running = tile_region(row_max, what, element=True), tile_region(row_sum, what, element=True)
    emit_op(OnlineSoftmax(tile, tile_region(output, what), running[0], running[1], factor, target))
