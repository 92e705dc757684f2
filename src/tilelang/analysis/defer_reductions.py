"""Which reductions of parallel loops may be completed after the serial loops around them.

    for k in range(n):                                         total_part = 0 in every thread
        for j in T.Parallel(N): total += A[k, j]        =>     for k in range(n): each thread adds to total_part
                                                               total += the sum of all total_part

Invariant: nothing else in the serial loop accesses the element of such a reduction between the first iteration and the
end of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.analysis.accesses import Accesses, accesses
from tilelang.analysis.parallel_legality import ParallelReduction
from tilelang.analysis.thread_accesses import transfers_ownership
from tilelang.ir.expr import Load, Var
from tilelang.ir.stmt import For, ParallelLoop
from tilelang.ir.visit import walk, walk_expr


class Deferral:
    """What may wait until a serial loop ends."""

    def __init__(self, loop: For) -> None:
        self._found: Accesses = accesses(loop)
        self._by_storage = self._found.by_storage()
        self._looked_at = any(transfers_ownership(stmt) for stmt in walk(loop))  # by others, who knows when

    def nests(self) -> list[ParallelLoop]:
        """The outermost parallel loops inside that update something."""
        updating = {around for a in self._found.all if a.update is not None for around in a.context.loops()}
        return [
            loop
            for loop, context in self._found.loops
            if loop in updating
            and isinstance(loop, ParallelLoop)
            and not any(isinstance(o, ParallelLoop) for o in context.loops())
        ]

    def may_wait(self, nest: ParallelLoop, reduction: ParallelReduction) -> bool:
        """Whether a reduction of a nest may be completed after the serial loop."""
        touching = self._by_storage.get(reduction.buffer.storage, [])  # nothing if it is new in every iteration
        if self._looked_at or not touching or any(a.update is None or a.update.op != reduction.op for a in touching):
            return False
        return not self._depends(reduction, nest.vars)

    def _depends(self, reduction: ParallelReduction, nest: Sequence[Var]) -> bool:
        """Whether the element is another one in every iteration of the serial loop."""
        own = frozenset(nest)
        for index in reduction.indices:
            for node in walk_expr(index):
                if isinstance(node, Load):
                    return True
                if isinstance(node, Var) and node in self._found.defined and node not in own:
                    return True
        return False
