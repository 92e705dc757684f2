"""What one kernel computes, before it is decided how: reductions and outputs over common axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from tilelang.arith.domain import Domain
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.visit import loads_of
from tilelang.level1.graph import Array, Combiner
from tilelang.records import record


@record(eq=False)
class FusedReduction:
    """A reduction whose result stays on chip.

    Attributes:
        array: The array of the graph.
        axes: The axes of the kernel that its dimensions are.
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
        """A read of the result."""
        return Load(self.array, self.axes, self.array.dtype)


@record(eq=False)
class Output:
    """An array that the kernel stores: `array[axes] = body`."""

    array: Array
    axes: tuple[Var, ...]
    body: Expr


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
        """The axes of the last reduction, over which the kernel loops where they do not fit on the chip."""
        return self.reductions[-1].reduced if self.reductions else ()

    @cached_property
    def parallel(self) -> tuple[Var, ...]:
        """The axes that no reduction reduces."""
        reduced = {axis for reduction in self.reductions for axis in reduction.reduced}
        return tuple(axis for axis in self.extents if axis not in reduced)

    @cached_property
    def grid(self) -> tuple[Var, ...]:
        """The parallel axes that all reductions have, so that blocks that divide them repeat nothing."""
        return tuple(axis for axis in self.parallel if all(axis in set(r.axes) for r in self.reductions))

    @property
    def accumulated(self) -> tuple[FusedReduction, ...]:
        """The reductions over the streamed axes; the others belong to a step of the loop, or stand before it."""
        return tuple(r for r in self.reductions if set(r.reduced) == set(self.streamed))
