"""`T.online_softmax`: one step of a softmax whose rows arrive in tiles.

Source: "Online normalizer calculation for softmax" (Milakov and Gimelshein, 2018); "FlashAttention-4" rescales lazily.
"""

from __future__ import annotations

import math

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, Expr
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import TileMemory, TileOp
from tilelang.ops.describe import (
    check_memory,
    check_scalars,
    drop_units,
    matrix_axes,
    operand_text,
    same_extents,
    shape_text,
)
from tilelang.records import record

LOG2_E = math.log2(math.e)
OPERANDS = ("scores", "output", "row_max", "row_sum", "scale", "probabilities")
_MAX_GROWTH = 8  # in powers of 2
_MAX_SUM = 48  # in powers of 2
_MAX_SUM_OF_SCORES = 15  # where the program converts the scores itself, perhaps to float16
_ON_CHIP = (Scope.SHARED, Scope.FRAGMENT, Scope.LOCAL)


@record(eq=False)
class OnlineSoftmax(TileOp):
    """Adds a tile of scores to running softmax statistics, and rescales an accumulator to fit.

    Per row i, with c = scale: `new = max(row_max[i], max(scores[i, :]))`, `alpha = exp(c * (row_max[i] - new))`, then
    `scores[i, :] = exp(c * (scores[i, :] - new))`, `row_sum[i] = row_sum[i] * alpha + sum(scores[i, :])`,
    `output[i, :] *= alpha`, `row_max[i] = new`, and probabilities are the scores, converted.

    Any other `new` serves as well relative to which no exponential exceeds `max_sum`: what is defined, once all tiles
    have been added, are `output / row_sum` and `scale * row_max + log(row_sum)`. A step that looks for the largest
    score lets it exceed `row_max` by at most `max_growth` powers of 2. A row whose scores are all -inf
    has a sum of 0.

    Shapes: scores and probabilities (M, N), output (M, K), row_max and row_sum (M,).

    Attributes:
        scores: The tile; overwritten by the probabilities before they are converted.
        output: The accumulator.
        row_max: The largest score of each row so far, -inf at first.
        row_sum: The sum of exponentials of each row so far, 0 at first.
        scale: What scores are multiplied by.
        probabilities: Where they go; None if the scores are enough.
    """

    scores: Region
    output: Region
    row_max: Region
    row_sum: Region
    scale: Expr
    probabilities: Region | None = None

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.online_softmax"

    @property
    def dtype(self) -> DType:
        """The dtype of everything but the probabilities."""
        return self.scores.dtype

    @property
    def max_growth(self) -> int:
        """By how many powers of 2 a score may exceed `row_max`, so that its exponential fits the probabilities."""
        return self._within_probabilities(_MAX_GROWTH)

    @property
    def max_sum(self) -> float:
        """What no sum of exponentials of a tile may exceed where `row_max` stays without a look at the scores.

        So no exponential is larger, and none overflows the probabilities: 2 ** 15 in float16, which ends at 65504, and
        2 ** 8 in float8_e4m3, which ends at 448. It is 2 ** 48 in bfloat16 and wider dtypes, which end where float32
        does, so that sums and the output of many tiles stay far from there.
        """
        return 2.0 ** self._within_probabilities(_MAX_SUM_OF_SCORES if self.probabilities is None else _MAX_SUM)

    def _within_probabilities(self, power: int) -> int:
        """A power of 2, or the largest one that the probabilities hold."""
        if self.probabilities is None:
            return power
        return min(power, int(math.log2(self.probabilities.dtype.limits[1])))

    def reads(self) -> tuple[Region, ...]:
        """The scores and what runs."""
        return (self.scores, self.output, self.row_max, self.row_sum)

    def writes(self) -> tuple[Region, ...]:
        """All operands."""
        return (*self.reads(), *self._probabilities)

    @property
    def _probabilities(self) -> tuple[Region, ...]:
        return () if self.probabilities is None else (self.probabilities,)

    def check(self) -> None:
        """All tiles have as many rows, are on chip, and are of one floating-point dtype but for the probabilities."""
        check_memory(self.name, *self.writes())
        check_scalars(self.name, *self.writes())
        for region in self.writes():
            self._check_place(region)
        for region in self.reads():
            if not region.dtype.is_float or region.dtype.bits < 32 or region.dtype != self.dtype:
                raise ProgramTypeError(
                    f"{self.name}: '{region.buffer.name}' holds {region.dtype!s} and '{self.scores.buffer.name}' holds "
                    f"{self.dtype!s}, but both must be float32, or both float64",
                    hint="only probabilities may have another dtype",
                )
        for region in self._probabilities:
            if not region.dtype.is_float or region.dtype.limits[1] < 2:
                raise ProgramTypeError(
                    f"{self.name}: '{region.buffer.name}' holds {region.dtype!s}, not a floating-point dtype",
                    hint="allocate it as float16 or bfloat16",
                )
        self._check_shapes()
        if len({region.buffer.storage for region in self.writes()}) < len(self.writes()):
            raise ProgramValueError(
                f"{self.name}: two operands share memory",
                hint="leave out probabilities to overwrite the scores, and allocate the other tiles",
            )
        if isinstance(self.scale, Const) and not 0 < self.scale.value < math.inf:
            raise ProgramValueError(
                f"{self.name}: scale is {self.scale.value}, but it must be positive and finite",
                hint="negate the scores instead" if self.scale.value < 0 else "",
            )

    def _check_place(self, region: Region) -> None:
        if region.buffer.scope not in _ON_CHIP or region.static_extent is None:
            raise ProgramValueError(
                f"{self.name}: {operand_text(region)} in {region.buffer.scope.value} memory, but operands are tiles of "
                "constant extents on chip",
                hint="copy it to a tile of T.alloc_fragment",
            )

    def _check_shapes(self) -> None:
        for region in (self.scores, self.output):
            if len(matrix_axes(region)) != 2:
                raise ProgramValueError(f"{self.name}: {operand_text(region)}, not a matrix")
        shape = tuple(self.scores.extent[axis] for axis in matrix_axes(self.scores))
        width = self.output.extent[matrix_axes(self.output)[1]]
        wanted = {self.output: (shape[0], width), self.row_max: shape[:1], self.row_sum: shape[:1]}
        for region, extents in (*wanted.items(), *((each, shape) for each in self._probabilities)):
            if not same_extents(drop_units(region.extent), drop_units(extents)):
                raise ProgramValueError(
                    f"{self.name}: {operand_text(self.scores)} but {operand_text(region)}",
                    hint=f"give '{region.buffer.name}' the shape {shape_text(extents)}",
                )

    def reference(self, memory: TileMemory) -> None:
        """With the exact maximum of each row."""
        scores, output = memory.read(self.scores), memory.read(self.output)
        scores, output = (each.reshape(each.shape[-2:]) for each in (scores, output))
        old, row_sum = (memory.read(each).reshape(-1, 1) for each in (self.row_max, self.row_sum))
        scale = np.asarray(memory.value(self.scale), scores.dtype)
        new = np.maximum(old, np.fmax.reduce(scores, axis=1, keepdims=True, initial=-math.inf))
        shift = np.where(np.isneginf(new), 0, new)  # a row without any score so far
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            alpha = np.exp(scale * (old - shift))
            exponentials = np.exp(scale * (scores - shift))
        memory.write(self.scores, exponentials)
        memory.write(self.row_sum, row_sum * alpha + exponentials.sum(axis=1, keepdims=True))
        memory.write(self.output, output * alpha)
        memory.write(self.row_max, new)
        for region in self._probabilities:
            memory.write(region, np.asarray(convert(exponentials, region.dtype)))
