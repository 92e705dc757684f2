"""Reductions of parallel loops that are completed after the serial loops around them, for one launch.

Takes serial loops and the distributed loops inside, emits what opens and closes partial results, and what multiplies
them where the program multiplies the sum. If that multiplies a tile as a whole, the partial results of one thread take
over its elements, so that the tile needs no registers in the loop. Invariant: after the serial loop the element has its
value of the sequential program, up to the order of additions and multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilelang.analysis.defer_reductions import Deferral, Scaling
from tilelang.ir.buffer import Buffer
from tilelang.ir.builder import Builder
from tilelang.ir.stmt import For, ParallelLoop, Stmt
from tilelang.records import record
from tilelang.targets.gpu.lowerings.parallel import Accumulated, DistributedLoop


@record(slots=True, eq=False)
class Deferred:
    """The reductions of a parallel loop that are completed after a serial one.

    Attributes:
        loop: The parallel loop.
        items: The reductions.
        taking: Those of them whose partial results take over the old values.
    """

    loop: DistributedLoop
    items: list[Accumulated]
    taking: list[Accumulated]

    def open(self, build: Builder) -> None:
        """Emits the first values of partial results, before the serial loop."""
        self.loop.init_partials(build, self.items)
        self.loop.take_old_values(build, self.taking)

    def close(self, build: Builder, outer: For) -> None:
        """Completes the reductions after the serial loop."""
        self.loop.finish(build, self.items, outer, self.taking)


class DeferredReductions:
    """The deferred reductions of a launch."""

    def __init__(self) -> None:
        self._of: dict[ParallelLoop, Deferred] = {}
        self._scaled: dict[ParallelLoop, list[tuple[Scaling, DistributedLoop, Accumulated]]] = {}
        self._replaced: set[ParallelLoop] = set()

    def of(self, nest: ParallelLoop) -> Deferred | None:
        """The deferred part of a parallel loop."""
        return self._of.get(nest)

    def defer(self, outer: For, distribute: Callable[[ParallelLoop], DistributedLoop | None]) -> list[Deferred]:
        """The reductions that may be completed after a loop, without those deferred to a loop around it.

        Args:
            outer: The serial loop.
            distribute: Gives a parallel loop with reductions as a distributed one; None if there is nothing to defer.
        """
        deferral = Deferral(outer)
        found: dict[ParallelLoop, tuple[DistributedLoop, list[Accumulated]]] = {}
        for nest in deferral.nests():
            distributed = None if nest in self._of else distribute(nest)
            if distributed is None:
                continue
            items = [item for item in distributed.accumulated if _can_defer(deferral, nest, distributed, item)]
            for item in items:
                for scaling in deferral.scalings(item.reduction):
                    self._scaled.setdefault(scaling.nest, []).append((scaling, distributed, item))
            if items:
                found[nest] = distributed, items
        taking = _taking(deferral, [*found.values()])
        self._replaced.update(scaling.nest for item in taking for scaling in deferral.scalings(item.reduction))
        made = {nest: Deferred(loop, items, [i for i in items if i in taking]) for nest, (loop, items) in found.items()}
        self._of |= made
        return [*made.values()]

    def replaces(self, nest: ParallelLoop) -> bool:
        """Whether `scale` is all that is left of a parallel loop, since partial results have taken over its tile."""
        return nest in self._replaced

    def scale(self, nest: ParallelLoop) -> list[Stmt]:
        """What multiplies the partial results of the sums that a parallel loop multiplies."""
        build = Builder(nest.loc)
        for scaling, distributed, item in self._scaled.get(nest, ()):
            distributed.scale(build, item, scaling)
        return build.statements


def _can_defer(deferral: Deferral, nest: ParallelLoop, distributed: DistributedLoop, item: Accumulated) -> bool:
    scalings = deferral.scalings(item.reduction)
    return deferral.can_defer(nest, item.reduction) and all(distributed.can_scale(item, each) for each in scalings)


def _taking(
    deferral: Deferral, found: Sequence[tuple[DistributedLoop, Sequence[Accumulated]]]
) -> list[Accumulated]:
    """The first reduction to each tile that is multiplied, if it has all elements, and all additions are deferred."""
    additions = {update.store for _, items in found for item in items for update in item.reduction.updates}
    first: dict[Buffer, Accumulated | None] = {}
    for loop, items in found:
        for item in items:
            takes = deferral.scalings(item.reduction) and deferral.additions(item.reduction) <= additions
            first.setdefault(item.reduction.buffer, item if takes and loop.has_all_elements(item) else None)
    return [item for item in first.values() if item is not None]
