"""The passes of a kernel over its data, as in two-pass softmax: which loop computes which reductions.

A reduction that reads the result of another one runs in the same pass if it has an incremental form, otherwise in the
next. What is stored per element of the streamed axes is stored by the last pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, cast
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import loads_of
from tilelang.level1.contraction import contraction
from tilelang.level1.fused import FusedKernel, FusedReduction, Output
from tilelang.level1.graph import Array, Combiner
from tilelang.level1.incremental_form import Incremental, NotIncremental, incremental_form
from tilelang.records import record

T = TypeVar("T")


@record(eq=False)
class Accumulation:
    """A reduction that a pass computes.

    Attributes:
        reduction: The reduction.
        form: Its incremental form; None if it reads no value that the same pass computes.
    """

    reduction: FusedReduction
    form: Incremental | None

    @property
    def body(self) -> Expr:
        """What is combined in the loop."""
        return self.reduction.body if self.form is None else self.form.body

    def final(self, accumulated: Expr) -> Expr:
        """The result after the loop, from the value of the accumulator."""
        if self.form is None or self.form.epilogue is None:
            return accumulated
        epilogue = self.form.epilogue
        if self.form.epilogue_op is BinaryOp.ADD:
            return accumulated + epilogue
        return accumulated * epilogue


@record(eq=False)
class Pass:
    """One loop over the streamed axes.

    Attributes:
        accumulations: The reductions, in order.
        outputs: What is stored at each step.
        reasons: Why reductions that could not run earlier were left to this pass.
    """

    accumulations: tuple[Accumulation, ...]
    outputs: tuple[Output, ...]
    reasons: tuple[str, ...]


def data_passes(kernel: FusedKernel) -> tuple[Pass, ...]:
    """The passes of a kernel over its streamed axes, in order."""
    place: dict[Array, int] = {}
    chosen: list[list[Accumulation]] = []
    reasons: list[list[str]] = []
    for reduction in kernel.accumulated:
        read = _accumulated_that_it_reads(kernel, reduction.body)
        first = max((place[each.array] for each in read), default=0)
        form: Incremental | None = None
        running: dict[Buffer, Combiner] = {each.array: each.combiner for each in read if place[each.array] == first}
        if running:
            found = incremental_form(reduction.body, reduction.combiner, set(kernel.streamed), running)
            if isinstance(found, NotIncremental) or not _read_directly(reduction.body, running):
                first += 1
                why = found.reason if isinstance(found, NotIncremental) else "it is read through another reduction"
                _at(reasons, first).append(f"{reduction.array.name}: {why}")
            else:
                form = found
        _at(chosen, first).append(Accumulation(reduction, _without_scale(reduction, form)))
        place[reduction.array] = first
    chosen = [_products_last(kernel, each) for each in chosen]
    streamed = set(kernel.streamed)
    loop_variant = [output for output in kernel.outputs if not streamed.isdisjoint(output.axes)]
    if loop_variant:
        read = [each for output in loop_variant for each in _accumulated_that_it_reads(kernel, output.body)]
        _at(chosen, max((place[each.array] + 1 for each in read), default=0))
    _at(reasons, len(chosen) - 1)
    last = len(chosen) - 1
    return tuple(
        Pass(tuple(each), tuple(loop_variant) if n == last else (), tuple(reasons[n])) for n, each in enumerate(chosen)
    )


def _products_last(kernel: FusedKernel, accumulations: list[Accumulation]) -> list[Accumulation]:
    """Sums of values before matrix products of them, so that both read the values from one tile."""
    products = [each for each in accumulations if contraction(each.reduction, each.body) is not None]
    others = [each for each in accumulations if each not in products]
    read = {reduction for each in others for reduction in _accumulated_that_it_reads(kernel, each.reduction.body)}
    return accumulations if any(each.reduction in read for each in products) else [*others, *products]


def _without_scale(reduction: FusedReduction, form: Incremental | None) -> Incremental | None:
    """The form of a matrix product with its constant factor after the loop."""
    product = contraction(reduction, reduction.body if form is None else form.body)
    if product is None or product.scale is None:
        return form
    exponents, epilogue = ((), None) if form is None else (form.exponents, form.epilogue)
    scale = product.scale if epilogue is None else epilogue * product.scale
    return Incremental(cast(product.a, product.scale.dtype) * product.b, exponents, scale, BinaryOp.MUL)


def _at(lists: list[list[T]], place: int) -> list[T]:
    while len(lists) <= place:
        lists.append([])
    return lists[place]


def _accumulated_that_it_reads(kernel: FusedKernel, body: Expr) -> list[FusedReduction]:
    """The reductions over the streamed axes that a body reads, also through others."""
    streamed = set(kernel.streamed)
    found: dict[FusedReduction, None] = {}
    for reduction in kernel.reads(body):
        if set(reduction.reduced) == streamed:
            found[reduction] = None
        else:
            found.update(dict.fromkeys(_accumulated_that_it_reads(kernel, reduction.body)))
    return list(found)


def _read_directly(body: Expr, running: Iterable[Buffer]) -> bool:
    read = {load.buffer for load in loads_of(body)}
    return read.issuperset(running)

