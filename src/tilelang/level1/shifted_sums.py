"""Computes sums of squared deviations from a mean in the same loop as the mean.

With a reference r that is near the mean m of n values x, and t = m - r, sums are taken of x - r instead of x:

    sum(x) = sum(x - r) + n * r        sum((x - m) ** 2) = sum((x - r) ** 2) - n * t ** 2,  t = sum(x - r) / n

The identities hold for every r, and cancel no digits where r is about as near to m as the values are. The reference is
the mean of a few values, so that one outlier has little effect. Takes a kernel, gives one whose loop reads no sum that
it computes. Invariant: `normal_form.py` proved the identity for the expression that is replaced.
"""

from __future__ import annotations

import dataclasses
import math

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.compare import expr_key
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Expr, Var, as_expr, const, int_const
from tilelang.ir.visit import Rewriter, loads_of, substitute, variables_of
from tilelang.level1.common_subexpressions import ReplaceExprs
from tilelang.level1.fused import FusedKernel, FusedReduction
from tilelang.level1.graph import Array, Combiner
from tilelang.level1.normal_form import is_proven_equal
from tilelang.level1.placement import Tiling
from tilelang.records import record

_SAMPLES = 32  # values whose mean is the reference
_ROUNDING = 2.0**-22  # relative error of a reciprocal of the number of values, as a constant in float32


def with_shifted_sums(kernel: FusedKernel, tiling: Tiling) -> FusedKernel:
    """The kernel with deviations from references in place of those from means that the same loop computes."""
    if not any(axis in tiling.blocks for axis in kernel.streamed):
        return kernel  # the values stay on chip, where a second pass reads them
    for total in kernel.accumulated:
        for squares in kernel.accumulated:
            deviations = _deviations(kernel, total, squares)
            if deviations is not None:
                return _shifted(kernel, total, squares, deviations)
    return kernel


@record(eq=False)
class _Deviations:
    """A body f(x, m) of a sum, where m is the mean of x, as `f(x, r) + t * (linear * (x - r) + square * t)`.

    Attributes:
        mean: How the body writes m.
        count: How many values there are.
        linear, square: The coefficients.
    """

    mean: Expr
    count: int
    linear: float
    square: float


def _deviations(kernel: FusedKernel, total: FusedReduction, squares: FusedReduction) -> _Deviations | None:
    """What a sum is of deviations from the mean that another sum gives; None if it is something else."""
    sizes = [int_const(kernel.extents[axis]) for axis in total.reduced]
    sums = total.combiner is Combiner.SUM and squares.combiner is Combiner.SUM
    if not sums or total.body.dtype != FLOAT32 or squares.body.dtype != FLOAT32 or None in sizes:
        return None
    if any(kernel.reads(total.body)) or list(kernel.reads(squares.body)) != [total]:
        return None
    count = math.prod(size or 0 for size in sizes)
    x, m, r = (Var(name, FLOAT32) for name in "xmr")
    finder = _AbstractMean(total, set(kernel.streamed), x, m)
    body = finder.expr(squares.body)
    if finder.mean is None or variables_of(body) != {x, m} or loads_of(body):
        return None
    if not _is_mean(finder.mean, total.array, count):
        return None
    at = {(a, b): float(evaluate(substitute(body, {x: _float(a), m: _float(b)}), {})) for a in (0, 1) for b in (0, 1)}
    square = at[0, 1] - at[0, 0]
    linear = at[1, 1] - at[1, 0] - square
    t = m - r
    expected = substitute(body, {m: r}) + t * (_float(linear) * (x - r) + _float(square) * t)
    if not math.isfinite(linear + square) or not is_proven_equal(body, expected):
        return None
    return _Deviations(finder.mean, count, linear, square)


def _is_mean(expr: Expr, total: Array, count: int) -> bool:
    """Whether an expression is a sum divided by the number of values, up to rounding of a reciprocal."""
    loads = loads_of(expr)
    if not count or any(load.buffer is not total for load in loads) or variables_of(expr) - variables_of(loads[0]):
        return False
    v, w = Var("v", FLOAT32), Var("w", FLOAT32)
    of_one, of_other, of_sum = (
        ReplaceExprs({expr_key(load): value for load in loads}).expr(expr) for value in (v, w, v + w)
    )
    factor = float(evaluate(substitute(of_one, {v: _float(1)}), {}))
    return abs(factor * count - 1) < _ROUNDING and is_proven_equal(of_sum, of_one + of_other)


def _shifted(
    kernel: FusedKernel, total: FusedReduction, squares: FusedReduction, found: _Deviations
) -> FusedKernel:
    sample = Var("sample", INT32, index=True)
    places: dict[Var, Expr] = {axis: sample * kernel.extents[axis] // _SAMPLES for axis in total.reduced}
    reference = FusedReduction(
        dataclasses.replace(total.array, name=f"{squares.array.name}_reference"),
        total.axes,
        (sample,),
        Combiner.SUM,
        substitute(total.body, places) * _float(1 / _SAMPLES),
    )
    r, count = reference.result, _float(found.count)
    from_mean = (found.linear + found.square) / found.count
    # readers of the sums get the original values, computed from the shifted ones
    full = ReplaceExprs(
        {
            expr_key(total.result): total.result + r * count,
            expr_key(squares.result): squares.result + total.result * (total.result * _float(from_mean)),
        }
    )
    reductions: list[FusedReduction] = [reference]
    for each in kernel.reductions:
        if each is total:
            body = each.body - r
        elif each is squares:
            body = ReplaceExprs({expr_key(found.mean): r}).expr(each.body)
        else:
            body = full.expr(each.body)
        reductions.append(dataclasses.replace(each, body=body))
    outputs = tuple(dataclasses.replace(each, body=full.expr(each.body)) for each in kernel.outputs)
    extents = {**kernel.extents, sample: as_expr(_SAMPLES)}
    return FusedKernel(extents, tuple(reductions), outputs)


def _float(value: float) -> Const:
    return const(value, FLOAT32)


class _AbstractMean(Rewriter):
    """Replaces the body of a sum by a variable, and the mean that is computed of the sum by another.

    Attributes:
        mean: The first expression of the sum alone; None before one is found.
    """

    def __init__(self, total: FusedReduction, along: set[Var], x: Var, m: Var) -> None:
        self._total, self._along, self._x, self._m = total, along, x, m
        self.mean: Expr | None = None

    def expr(self, node: Expr) -> Expr:
        if expr_key(node) == expr_key(self._total.body):
            return self._x
        reads = any(load.buffer is self._total.array for load in loads_of(node))
        if reads and self._along.isdisjoint(variables_of(node)):
            if self.mean is None:
                self.mean = node
            return self._m if expr_key(node) == expr_key(self.mean) else node
        return self.rebuild_expr(node)
