"""Reductions of parallel loops that are completed after the serial loops around them, for one launch.

Takes serial loops and the distributed loops inside, emits what opens and closes partial results, and what multiplies
them where the program multiplies the sum. Invariant: after the serial loop the element has its value of the sequential
program, up to the order of additions and multiplications.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.analysis.defer_reductions import Deferral, Scaling
from tilelang.ir.builder import Builder
from tilelang.ir.stmt import For, ParallelLoop
from tilelang.records import record
from tilelang.targets.gpu.lowerings.parallel import Accumulated, DistributedLoop


@record(slots=True, eq=False)
class Deferred:
    """The reductions of a parallel loop that are completed after a serial one."""

    loop: DistributedLoop
    items: list[Accumulated]


class DeferredReductions:
    """The deferred reductions of a launch."""

    def __init__(self) -> None:
        self._of: dict[ParallelLoop, Deferred] = {}
        self._scaled: dict[ParallelLoop, list[tuple[Scaling, DistributedLoop, Accumulated]]] = {}

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
        found = []
        for nest in deferral.nests():
            distributed = None if nest in self._of else distribute(nest)
            if distributed is None:
                continue
            items = [item for item in distributed.accumulated if _can_defer(deferral, nest, distributed, item)]
            for item in items:
                for scaling in deferral.scalings(item.reduction):
                    self._scaled.setdefault(scaling.nest, []).append((scaling, distributed, item))
            if items:
                self._of[nest] = Deferred(distributed, items)
                found.append(self._of[nest])
        return found

    def scale(self, nest: ParallelLoop, build: Builder) -> None:
        """Multiplies the partial results of the sums that a parallel loop has just multiplied."""
        for scaling, distributed, item in self._scaled.get(nest, ()):
            distributed.scale(build, item, scaling)


def _can_defer(deferral: Deferral, nest: ParallelLoop, distributed: DistributedLoop, item: Accumulated) -> bool:
    scalings = deferral.scalings(item.reduction)
    return deferral.can_defer(nest, item.reduction) and all(distributed.can_scale(item, each) for each in scalings)
