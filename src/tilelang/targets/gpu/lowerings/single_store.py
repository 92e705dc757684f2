"""`T.Parallel` loops that do nothing but to store a value to each of some elements of a shared tile.

Takes a loop, gives the parts of its body, for lowerings that store in a way of their own. Invariant: the iterations may
be executed in any order, and what they store does not depend on what others have stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.analysis.parallel_legality import ParallelLegality
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Bind, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import expressions, substitute, walk_expr
from tilelang.records import record


@record(slots=True, eq=False)
class SingleStore:
    """A loop whose body is a store behind names of index arithmetic.

    Attributes:
        loop: The loop.
        names: The names.
        store: The store.
        indices: Its indices, with names replaced by their values.
    """

    loop: ParallelLoop
    names: tuple[Stmt, ...]
    store: Store
    indices: tuple[Expr, ...]

    @property
    def tile(self) -> Buffer:
        """What is stored to."""
        return self.store.buffer

    def into(self, values: Buffer, index: Expr) -> ParallelLoop:
        """The loop with an element of other memory in the place of that of the tile."""
        kept = Store(values, (index,), self.store.value, loc=self.store.loc)
        body = Seq((*self.names, kept), loc=self.loop.body.loc)
        return ParallelLoop(self.loop.vars, self.loop.extents, body, loc=self.loop.loc)


def single_store(loop: ParallelLoop, legality: ParallelLegality) -> SingleStore | None:
    """The parts of a loop; None if it does anything else."""
    *names, store = statements_of(loop.body) or (loop.body,)
    if not isinstance(store, Store) or not _is_own_tile(store.buffer):
        return None
    if not all(isinstance(name, Bind) for name in names):
        return None
    if legality.reason or legality.reductions or legality.atomics or legality.last_value_stores or legality.live_out:
        return None
    if any(_reads(store.buffer, stmt) for stmt in (*names, store)):
        return None  # lanes would write what others have yet to read
    return SingleStore(loop, tuple(names), store, _named_by_variables(store.indices, names))


def _is_own_tile(tile: Buffer) -> bool:
    return tile.scope is Scope.SHARED and tile.view_of is None and tile.strides is None and tile.dtype.lanes == 1


def _reads(tile: Buffer, stmt: Stmt) -> bool:
    """Whether a statement reads what it stores to."""
    nodes = (node for root in expressions(stmt) for node in walk_expr(root))
    return any(isinstance(node, Load) and node.buffer.storage is tile.storage for node in nodes)


def _named_by_variables(indices: Sequence[Expr], names: Sequence[Stmt]) -> tuple[Expr, ...]:
    """Indices with the names of index arithmetic replaced by their values."""
    values: dict[Var, Expr] = {}
    for name in names:
        if isinstance(name, Bind):
            values[name.var] = substitute(name.value, values)
    return tuple(substitute(index, values) for index in indices)
