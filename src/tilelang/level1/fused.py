"""A fused kernel before tiling: reductions and outputs over common axes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Set
from functools import cached_property

from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32
from tilelang.ir.expr import Const, Expr, Load, Var
from tilelang.ir.visit import loads_of
from tilelang.level1.graph import Array, Combiner, Scan, Scatter, Sort
from tilelang.records import record

ZERO = Const(0, INT32, weak=True)


@record(eq=False)
class FusedReduction:
    """A reduction whose result stays on chip.

    Attributes:
        array: The array of the graph.
        axes: The axes of the kernel for its dimensions, without those of extent 1.
        reduced: The axes of the kernel that it reduces.
        combiner: How.
        body: What it combines. Reads of other reductions of the kernel have exactly their axes as indices.
    """

    array: Array
    axes: tuple[Var, ...]
    reduced: tuple[Var, ...]
    combiner: Combiner
    body: Expr

    @property
    def result(self) -> Load:
        """A read of the result; used as a key, as dimensions of extent 1 have no index."""
        return Load(self.array, self.axes, self.array.dtype)


@record(eq=False)
class Output:
    """An array that the kernel stores.

    Attributes:
        array: The array.
        indices: Where an element goes, over the axes of the kernel.
        axes: The axes over which elements are computed.
        body: The element.
        definition: For a scan or a sort of the body, or updates of elements, its definition.
        along: The axis that is scanned or sorted; None without.
    """

    array: Array
    indices: tuple[Expr, ...]
    axes: tuple[Var, ...]
    body: Expr
    definition: Scan | Sort | Scatter | None = None
    along: Var | None = None

    @property
    def target(self) -> Load:
        """The element that is stored."""
        return Load(self.array, self.indices, self.array.stored_dtype)


@record(eq=False)
class FusedKernel:
    """Reductions and outputs over common axes.

    Attributes:
        extents: The axes with their extents: those of outputs, then those that are only reduced.
        reductions: In an order in which each reads only earlier ones.
        outputs: What is stored.
    """

    extents: Mapping[Var, Expr]
    reductions: tuple[FusedReduction, ...]
    outputs: tuple[Output, ...]

    @cached_property
    def domain(self) -> Domain:
        """The ranges of the axes."""
        return Domain().with_extents(self.extents, self.extents.values())

    @cached_property
    def by_array(self) -> Mapping[Array, FusedReduction]:
        """The reductions by the array that each computes."""
        return {reduction.array: reduction for reduction in self.reductions}

    def reads(self, body: Expr) -> Iterator[FusedReduction]:
        """The reductions that a body reads, each once."""
        found = (self.by_array.get(load.buffer) for load in loads_of(body))  # type: ignore[call-overload]
        yield from dict.fromkeys(reduction for reduction in found if reduction is not None)

    @cached_property
    def streamed(self) -> tuple[Var, ...]:
        """The axes of the last reduction: a block loops over them if they do not fit on chip."""
        return self.reductions[-1].reduced if self.reductions else ()

    @cached_property
    def sequences(self) -> tuple[Var, ...]:
        """The axes that outputs are scanned or sorted along."""
        return tuple(output.along for output in self.outputs if output.along is not None)

    @cached_property
    def parallel(self) -> tuple[Var, ...]:
        """The axes that nothing reduces, scans or sorts."""
        taken = {axis for reduction in self.reductions for axis in reduction.reduced} | set(self.sequences)
        return tuple(axis for axis in self.extents if axis not in taken)

    @cached_property
    def grid(self) -> tuple[Var, ...]:
        """The parallel axes that all reductions have: dividing them among blocks repeats no work."""
        return tuple(axis for axis in self.parallel if all(axis in set(r.axes) for r in self.reductions))

    @property
    def loads(self) -> Iterator[Load]:
        """All elements that it reads, of arrays in memory and of its own reductions."""
        for body in (*(each.body for each in self.reductions), *(each.body for each in self.outputs)):
            yield from loads_of(body)

    def without(self, unread: Set[Array]) -> FusedKernel:
        """The kernel without outputs that nothing reads, such as those whose readers were fused into it later."""
        outputs = tuple(output for output in self.outputs if output.array not in unread)
        return self if len(outputs) == len(self.outputs) else dataclasses.replace(self, outputs=outputs)

    @property
    def accumulated(self) -> tuple[FusedReduction, ...]:
        """The reductions over the streamed axes; others are computed in an iteration, or before the loop."""
        return tuple(r for r in self.reductions if set(r.reduced) == set(self.streamed))
