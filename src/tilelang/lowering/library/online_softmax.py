"""`T.online_softmax` as reductions and parallel loops, which rescale only where the reference of a row has to move.

Takes an `OnlineSoftmax`, emits a `Reduce`, parallel loops and a `Copy`. Exponentials are relative to a reference, which
`row_max` holds: the largest score at the time when it last moved. It moves when a score exceeds it by more than
`max_growth` powers of 2. Invariant: no exponential overflows the probabilities, and none of a finite score is NaN.

Most steps move no reference. The search for the largest score starts at the limit that moves it, so that warps of a GPU
find by one vote that they may skip the rest of the search, and all that a moved reference asks for.

The accumulator is rescaled, and probabilities are converted, after all that needs only the scores, so that a software
pipeline may run the latter while a gemm uses both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tilelang.ir.buffer import Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Call, Expr, Load, Var, binary, const, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import If, Store
from tilelang.isa.catalogue import INTRINSICS
from tilelang.lowering.loops import parallel, scratch
from tilelang.lowering.regions import axes, indices, load
from tilelang.ops.copy import Copy
from tilelang.ops.describe import matrix_axes
from tilelang.ops.online_softmax import LOG2_E, OnlineSoftmax
from tilelang.ops.reduce import Reduce, ReduceOp
from tilelang.records import record

_FAR = 2.0**10
"""A reference whose exponent is further from 0 is subtracted from the scores before they are scaled.

A nearer one is subtracted in one operation with the scaling: its exponent is rounded, by at most 2 ** -14, which
changes all exponentials of a row by the same factor.
"""


@record(slots=True)
class _Tile:
    """A tile of the step, addressed by row, or by row and column."""

    region: Region
    axes: Sequence[int]

    def load(self, *at: Expr) -> Load:
        """An element."""
        return load(self.region, at, self.axes)

    def store(self, build: Builder, at: Sequence[Expr], value: Expr) -> None:
        """Stores an element."""
        build.emit(Store(self.region.buffer, indices(self.region, at, self.axes), value))


def _matrix(region: Region) -> _Tile:
    return _Tile(region, matrix_axes(region))


def _rows(region: Region) -> _Tile:
    return _Tile(region, axes(region) or (0,))


def expand_online_softmax(op: OnlineSoftmax, build: Builder) -> None:
    """The step as simpler statements."""
    step, scores = _Step(op, build), matrix_axes(op.scores)
    rows, columns = (op.scores.extent[axis] for axis in scores)
    parallel(build, (rows,), lambda at: step.keep_exponent(*at))
    parallel(build, (rows,), lambda at: step.start_search(*at))
    search = Reduce(ReduceOp.MAX, op.scores, step.found.region, scores[1], clear=False, nan_propagate=False)
    build.emit(dataclasses.replace(search, seldom_updates=True))
    parallel(build, (rows,), lambda at: step.move_exponent(*at))
    parallel(build, (rows, columns), lambda at: step.subtract_far_reference(*at))
    parallel(build, (rows, columns), lambda at: step.exponential(*at))
    parallel(build, (rows,), lambda at: step.rescale_sum(*at))
    parallel(build, (rows, columns), lambda at: step.add(*at))
    parallel(build, (rows, op.output.extent[matrix_axes(op.output)[1]]), lambda at: step.rescale_output(*at))
    parallel(build, (rows,), lambda at: step.move_reference(*at))
    if op.probabilities is not None:
        build.emit(Copy(op.scores, op.probabilities))


class _Step:
    """Emits the statements of each row i, or of each element (i, j).

    Attributes:
        found: The limit, or the largest score of the row if that is larger.
    """

    def __init__(self, op: OnlineSoftmax, build: Builder) -> None:
        self._build, self._dtype = build, op.dtype
        self._scores, self._output = _matrix(op.scores), _matrix(op.output)
        self._reference, self._row_sum = _rows(op.row_max), _rows(op.row_sum)
        self._scale = op.scale * const(LOG2_E, op.dtype)
        self._max_growth = const(op.max_growth, op.dtype)
        self._zero, self._one = const(0, op.dtype), const(1, op.dtype)
        extent = int_const(op.scores.extent[self._scores.axes[0]]) or 0

        def row_tile(name: str) -> _Tile:
            name = f"{op.scores.buffer.name}_{name}"
            return _rows(scratch(build, name, (extent,), op.dtype, Scope.FRAGMENT))

        self.found = row_tile("max")
        self._exponent = row_tile("exponent")  # what is subtracted from scaled scores

    def keep_exponent(self, i: Var) -> None:
        """Finds what is subtracted from the scaled scores of a row unless its reference moves."""
        reference = self._reference.load(i)
        has_scores = binary(BinaryOp.GT, reference, const(-math.inf, self._dtype))
        self._exponent.store(self._build, (i,), select(has_scores, self._unless_far(reference), self._zero))

    def start_search(self, i: Var) -> None:
        """Starts the search for the largest score at the limit, which no score exceeds in most tiles."""
        self.found.store(self._build, (i,), self._limit(i))

    def _limit(self, i: Var) -> Expr:
        """The largest score that leaves the reference of a row where it is; none leaves a far one."""
        reference, nothing = self._reference.load(i), const(-math.inf, self._dtype)
        return select(self._is_far(reference), nothing, reference + self._max_growth / self._scale)

    def _moves(self, i: Var) -> Expr:
        return self.found.load(i) > self._limit(i)

    def _moved(self, i: Var) -> Expr:
        """The reference of a row where it moves; it never falls."""
        return binary(BinaryOp.FMAX, self.found.load(i), self._reference.load(i))

    def _is_far(self, reference: Expr) -> Expr:
        scaled = Call(INTRINSICS["abs"], (reference * self._scale,), self._dtype)  # an operand's modifier on GPUs
        return binary(BinaryOp.GT, scaled, const(_FAR, self._dtype))

    def _unless_far(self, reference: Expr) -> Expr:
        """A reference, scaled; 0 for a far one, which has been subtracted from the scores."""
        return select(self._is_far(reference), self._zero, reference * self._scale)

    def move_exponent(self, i: Var) -> None:
        """Finds what is subtracted from the scaled scores of a row whose reference moves."""
        self._update(self._exponent, (i,), self._unless_far(self._moved(i)), self._moves(i))

    def subtract_far_reference(self, i: Var, j: Var) -> None:
        """Subtracts the reference from a score before it is scaled, if that is far."""
        subtracted = select(self._is_far(self._moved(i)), self._moved(i), self._zero)
        self._update(self._scores, (i, j), self._scores.load(i, j) - subtracted, self._moves(i))

    def exponential(self, i: Var, j: Var) -> None:
        """Replaces a score by its exponential."""
        exponent = self._scores.load(i, j) * self._scale - self._exponent.load(i)
        self._scores.store(self._build, (i, j), _exp2(exponent))

    def _alpha(self, i: Var) -> Expr:
        """Return the factor of the older sums of a row where its reference moves."""
        return _exp2((self._reference.load(i) - self._moved(i)) * self._scale)

    def rescale_sum(self, i: Var) -> None:
        """Multiplies the running sum of a row."""
        factor = select(self._moves(i), self._alpha(i), self._one)
        self._row_sum.store(self._build, (i,), self._row_sum.load(i) * factor)

    def add(self, i: Var, j: Var) -> None:
        """Adds an exponential to the running sum of its row."""
        self._row_sum.store(self._build, (i,), self._row_sum.load(i) + self._scores.load(i, j))

    def rescale_output(self, i: Var, j: Var) -> None:
        """Multiplies an element of the accumulator if the reference of its row moves."""
        self._update(self._output, (i, j), self._output.load(i, j) * self._alpha(i), self._moves(i))

    def move_reference(self, i: Var) -> None:
        """Moves the reference of a row whose scores exceed the limit."""
        self._update(self._reference, (i,), self._moved(i), self._moves(i))

    def _update(self, tile: _Tile, at: Sequence[Expr], value: Expr, condition: Expr) -> None:
        with self._build.block() as then:
            tile.store(self._build, at, value)
        self._build.emit(If(condition, as_body(then)))


def _exp2(x: Expr) -> Expr:
    return Call(INTRINSICS["__exp2"], (x,), x.dtype)
