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
from collections.abc import Callable, Sequence

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
from tilelang.ops.online_softmax import LOG2_E, OPERANDS, OnlineSoftmax
from tilelang.ops.reduce import Reduce, ReduceOp
from tilelang.records import record

_FAR = 2.0**10
"""A reference whose exponent is further from 0 is subtracted from the scores before they are scaled.

A nearer one is subtracted in one operation with the scaling: its exponent is rounded, by at most 2 ** -14, which
changes all exponentials of a row by the same factor.
"""


@record(slots=True)
class Tile:
    """A tile of the step, addressed by row, or by row and column."""

    region: Region
    axes: Sequence[int]

    def load(self, *at: Expr) -> Load:
        """An element."""
        return load(self.region, at, self.axes)

    def store(self, build: Builder, at: Sequence[Expr], value: Expr) -> None:
        """Stores an element."""
        build.emit(Store(self.region.buffer, indices(self.region, at, self.axes), value))


def _matrix(region: Region) -> Tile:
    return Tile(region, matrix_axes(region))


def _rows(region: Region) -> Tile:
    return Tile(region, axes(region) or (0,))


def expand_online_softmax(op: OnlineSoftmax, build: Builder) -> None:
    """The step as simpler statements."""
    OnlineSoftmaxStep(op, build).emit()


class OnlineSoftmaxStep:
    """Emits the statements of a step, from those of each row i or of each element (i, j).

    Attributes:
        rows: How many rows the scores have.
        columns: How many columns.
    """

    def __init__(self, op: OnlineSoftmax, build: Builder) -> None:
        self._op, self._build, self._dtype = op, build, op.dtype
        self._scores, self._output = _matrix(op.scores), _matrix(op.output)
        self._reference, self._row_sum = _rows(op.row_max), _rows(op.row_sum)
        self._scale = op.scale * const(LOG2_E, op.dtype)
        self._max_growth = const(op.max_growth, op.dtype)
        self._zero, self._one = const(0, op.dtype), const(1, op.dtype)
        self.rows, self.columns = (op.scores.extent[axis] for axis in self._scores.axes)
        self._found = self._tile("max", self.rows)  # the limit, or the largest score of the row if that is larger
        self._exponent = self._tile("exponent", self.rows)  # what is subtracted from scaled scores

    def _tile(self, name: str, *extents: Expr) -> Tile:
        """A tile in registers."""
        shape = tuple(int_const(extent) or 0 for extent in extents)
        region = scratch(self._build, f"{self._op.scores.buffer.name}_{name}", shape, self._dtype, Scope.FRAGMENT)
        return Tile(region, tuple(range(len(shape))))

    def emit(self) -> None:
        """All of them."""
        op, by_row, by_element = self._op, self._by_row, self._by_element
        by_row(self.keep_exponent)
        by_row(self.start_search)
        step = tuple(getattr(op, field) for field in OPERANDS)
        search = Reduce(ReduceOp.MAX, op.scores, self._found.region, self._scores.axes[1], False, nan_propagate=False)
        self._build.emit(dataclasses.replace(search, seldom_updates=True, step=step))
        by_row(self.move_exponent)
        by_element(self.subtract_far_reference)
        by_element(self.exponential)
        self.add_to_sums()
        columns = op.output.extent[self._output.axes[1]]
        parallel(self._build, (self.rows, columns), lambda at: self.rescale_output(*at))
        by_row(self.move_reference)
        self.convert()

    def add_to_sums(self) -> None:
        """Rescales the running sums, and adds the exponentials."""
        self._by_row(self.rescale_sum)
        self._by_element(self.add)

    def convert(self) -> None:
        """Converts the exponentials to probabilities."""
        if self._op.probabilities is not None:
            self._build.emit(Copy(self._op.scores, self._op.probabilities))

    def _by_row(self, element: Callable[[Var], None]) -> None:
        parallel(self._build, (self.rows,), lambda at: element(*at))

    def _by_element(self, element: Callable[[Var, Var], None]) -> None:
        parallel(self._build, (self.rows, self.columns), lambda at: element(*at))

    def keep_exponent(self, i: Var) -> None:
        """Finds what is subtracted from the scaled scores of a row unless its reference moves."""
        reference = self._reference.load(i)
        has_scores = binary(BinaryOp.GT, reference, const(-math.inf, self._dtype))
        self._exponent.store(self._build, (i,), select(has_scores, self._unless_far(reference), self._zero))

    def start_search(self, i: Var) -> None:
        """Starts the search for the largest score at the limit, which no score exceeds in most tiles."""
        self._found.store(self._build, (i,), self._limit(i))

    def _limit(self, i: Var) -> Expr:
        """The largest score that leaves the reference of a row where it is; none leaves a far one."""
        reference, nothing = self._reference.load(i), const(-math.inf, self._dtype)
        return select(self._is_far(reference), nothing, reference + self._max_growth / self._scale)

    def _moves(self, i: Var) -> Expr:
        return self._found.load(i) > self._limit(i)

    def _moved(self, i: Var) -> Expr:
        """The reference of a row where it moves; it never falls."""
        return binary(BinaryOp.FMAX, self._found.load(i), self._reference.load(i))

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

    def growth_factor(self, i: Var) -> Expr:
        """What the older sums of a row are multiplied by: 1 unless its reference moves."""
        return select(self._moves(i), self._alpha(i), self._one)

    def rescale_sum(self, i: Var) -> None:
        """Multiplies the running sum of a row."""
        self._row_sum.store(self._build, (i,), self._row_sum.load(i) * self.growth_factor(i))

    def add(self, i: Var, j: Var) -> None:
        """Adds an exponential to the running sum of its row."""
        self._row_sum.store(self._build, (i,), self._row_sum.load(i) + self._scores.load(i, j))

    def rescale_output(self, i: Var, j: Var) -> None:
        """Multiplies an element of the accumulator if the reference of its row moves."""
        self._update(self._output, (i, j), self._output.load(i, j) * self._alpha(i), self._moves(i))

    def move_reference(self, i: Var) -> None:
        """Moves the reference of a row whose scores exceed the limit."""
        self._update(self._reference, (i,), self._moved(i), self._moves(i))

    def _update(self, tile: Tile, at: Sequence[Expr], value: Expr, condition: Expr) -> None:
        with self._build.block() as then:
            tile.store(self._build, at, value)
        self._build.emit(If(condition, as_body(then)))


def _exp2(x: Expr) -> Expr:
    return Call(INTRINSICS["__exp2"], (x,), x.dtype)
