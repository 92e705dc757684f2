"""Which reductions of parallel loops may be completed after the serial loops around them.

    for k in range(n):                                         total_part = 0 in every thread
        for j in T.Parallel(N): total += A[k, j]        =>     for k in range(n): each thread adds to total_part
                                                               total += the sum of all total_part

A sum may also be multiplied in between, as a running sum of exponentials is: the parts of the threads are multiplied,
too.

    for k in range(n):                                         total_part = 0 in every thread
        for i in T.Parallel(M): total[i] *= alpha[i]    =>     for k in range(n):
        for i, j in T.Parallel(M, N):                              total[i] *= alpha[i], total_part *= alpha[i]
            total[i] += A[i, j]                                    each thread adds to total_part
                                                               total[i] += the sum of all total_part

Invariant: nothing else in the serial loop accesses the element of such a reduction between the first iteration and the
end of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.analysis.accesses import Accesses, accesses
from tilelang.analysis.parallel_legality import ParallelReduction
from tilelang.analysis.reductions import as_update
from tilelang.analysis.thread_accesses import SHARED_BY_THREADS, transfers_ownership
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Expr, Load, Var
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import For, ParallelLoop, Stmt, Store
from tilelang.ir.visit import loads_of, walk, walk_expr
from tilelang.records import record


@record(slots=True, eq=False)
class Scaling:
    """A parallel loop that multiplies every element of a tile, each by a value of its own.

    Attributes:
        nest: The loop, which does nothing else.
        buffer: The tile.
        indices: Its variables, in the order in which they index the tile.
        factor: The value, in these variables.
    """

    nest: ParallelLoop
    buffer: Buffer
    indices: tuple[Expr, ...]
    factor: Expr


class Deferral:
    """Which reductions in a serial loop may be completed after it."""

    def __init__(self, loop: For) -> None:
        self._found: Accesses = accesses(loop)
        self._by_storage = self._found.by_storage()
        self._has_transfers = any(transfers_ownership(stmt) for stmt in walk(loop))  # to other threads

    def nests(self) -> list[ParallelLoop]:
        """The outermost parallel loops inside that have reductions."""
        updating = {around for a in self._found.all if a.update is not None for around in a.context.loops()}
        return [
            loop
            for loop, context in self._found.loops
            if loop in updating
            and isinstance(loop, ParallelLoop)
            and not any(isinstance(o, ParallelLoop) for o in context.loops())
        ]

    def can_defer(self, nest: ParallelLoop, reduction: ParallelReduction) -> bool:
        """Whether a reduction of a nest may be completed after the serial loop."""
        uses = self._by_storage.get(reduction.buffer.storage, [])  # none if it is allocated in each iteration
        is_visible = self._has_transfers and reduction.buffer.scope in SHARED_BY_THREADS
        if is_visible or not uses or self._varies(reduction, nest.vars):
            return False
        scaled = self._multiplications(reduction)
        return all(a.stmt in scaled or a.update is not None and a.update.op == reduction.op for a in uses)

    def additions(self, reduction: ParallelReduction) -> set[Stmt]:
        """The statements inside that use the tile of a reduction, without those that multiply its sums."""
        uses = self._by_storage.get(reduction.buffer.storage, [])
        return {a.stmt for a in uses} - self._multiplications(reduction)

    def _multiplications(self, reduction: ParallelReduction) -> set[Stmt]:
        return {scaling.nest.body for scaling in self.scalings(reduction)}

    def scalings(self, reduction: ParallelReduction) -> list[Scaling]:
        """The loops inside that multiply the sums of a reduction."""
        scalings = [scaling_of(nest) for nest in self.nests() if reduction.op == "+"]
        return [each for each in scalings if each is not None and each.buffer is reduction.buffer]

    def _varies(self, reduction: ParallelReduction, nest: Sequence[Var]) -> bool:
        """Whether the element is another one in every iteration of the serial loop."""
        own = frozenset(nest)
        for index in reduction.indices:
            for node in walk_expr(index):
                if isinstance(node, Load):
                    return True
                if isinstance(node, Var) and node in self._found.defined and node not in own:
                    return True
        return False


def scaling_of(nest: ParallelLoop) -> Scaling | None:
    """A loop as a multiplication of all elements of a tile; None if it is something else."""
    store = nest.body
    if not isinstance(store, Store) or store.buffer.rank != len(nest.vars) or not isinstance(store.value, Binary):
        return None
    update = as_update(store)
    if update is None or store.value.op is not BinaryOp.MUL:
        return None
    equal_pairs = (*zip(store.indices, nest.vars, strict=True), *zip(nest.extents, store.buffer.shape, strict=True))
    factors = [side for side in (store.value.a, store.value.b) if all(side is not old for old in update.previous)]
    if len(factors) != 1 or not all(same_expr(*pair) for pair in equal_pairs):
        return None
    if any(load.buffer.storage is store.buffer.storage for load in loads_of(factors[0])):
        return None
    return Scaling(nest, store.buffer, store.indices, factors[0])
