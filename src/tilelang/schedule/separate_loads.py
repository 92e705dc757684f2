"""Loads of parallel loops from global memory as loops of their own, so that they can be issued earlier.

Takes a parallel loop that stores one value an iteration; gives loops that load what it needs to fragments, and the loop
that finds it there. A load that the loop only copies may stay in it; then the others are those that select its rows.

    for i, j in T.Parallel(64, 128):                for i in T.Parallel(64):
        tile[i, j] = rows[index[k * 64 + i], j]  =>     index_rows[i] = index[k * 64 + i]
                                                    for i, j in T.Parallel(64, 128):
                                                        tile[i, j] = rows[index_rows[i], j]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from tilelang.dtypes import INT32
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, Bind, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, substitute, walk_expr


class SeparateLoads:
    """The loads of a parallel loop, each in a fragment and a loop that fills it.

    Args:
        loop: Its body is a store, behind bindings.
        kept: The load that stays in the loop, given its store without names that the loop binds; None for none.
        target: What the loop stores to instead, if anything.

    Attributes:
        loop: The loop with elements of the fragments in place of the loads.
        loads: The loops that fill the fragments.
    """

    def __init__(
        self,
        loop: ParallelLoop,
        kept: Callable[[Store], Load | None] | None = None,
        target: Buffer | None = None,
    ) -> None:
        self._original = loop
        self._rows: Load | None = None
        self._along: Expr | None = None  # the variable of the rows' elements
        self._fragments: list[tuple[Load, Buffer, tuple[int, ...]]] = []
        self.loop = self._rewritten(kept, target)
        self.loads = list(self._filling())

    def _rewritten(self, kept: Callable[[Store], Load | None] | None, target: Buffer | None) -> ParallelLoop:
        names = flat_statements(self._original.body)
        store = names.pop()
        assert isinstance(store, Store)
        bindings = _SubstituteBindings(values_of(names))
        substituted = bindings.rebuild_stmt(store)
        assert isinstance(substituted, Store)
        if kept is not None:
            self._rows, self._along = kept(substituted), substituted.indices[-1]
            assert self._rows is not None
        from_fragments = _LoadFromFragments(self)
        changed = from_fragments.rebuild_stmt(substituted) or substituted
        assert isinstance(changed, Store)
        if target is not None:
            changed = dataclasses.replace(changed, buffer=target)
        assumptions = []
        count = len(self._fragments)
        for name in names:
            if isinstance(name, Assume):
                value = from_fragments.expr(bindings.expr(name.value))
                if len(self._fragments) == count:
                    assumptions.append(dataclasses.replace(name, value=value))
                del self._fragments[count:]  # nothing is loaded for an assumption alone
        body = Seq((*assumptions, changed), loc=self._original.body.loc) if assumptions else changed
        return dataclasses.replace(self._original, body=body)

    def element(self, load: Load) -> Load | None:
        """The element of a fragment that replaces a load; None if the load stays."""
        variables = self._original.vars
        used = set(walk_expr(load))
        if load is self._rows or self._along in used:
            return None
        axes = tuple(n for n, var in enumerate(variables) if var in used)
        if load.buffer.scope is not Scope.GLOBAL or not axes or load.dtype.lanes > 1:
            return None
        fragment = next((buffer for other, buffer, _ in self._fragments if same_expr(other, load)), None)
        if fragment is None:
            extents = tuple(self._original.extents[n] for n in axes)
            name = f"{load.buffer.name}_{'next' if self._rows is None else 'rows'}"
            fragment = Buffer(name, extents, load.dtype, Scope.FRAGMENT, loc=self._original.loc)
            self._fragments.append((load, fragment, axes))
        return Load(fragment, tuple(variables[n] for n in axes), load.dtype)

    def allocations(self) -> list[Alloc]:
        """The allocations of the fragments."""
        return [Alloc(fragment, loc=self._original.loc) for _, fragment, _ in self._fragments]

    def _filling(self) -> Iterator[ParallelLoop]:
        loc = self._original.loc
        for load, fragment, axes in self._fragments:
            new = {self._original.vars[n]: Var(self._original.vars[n].name, INT32, index=True) for n in axes}
            store = Store(fragment, tuple(new.values()), substitute(load, new), loc=self._original.body.loc)
            yield ParallelLoop(tuple(new.values()), fragment.shape, store, loc=loc)


class _SubstituteBindings(Rewriter):
    """Replaces bound variables by their values."""

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        self._values = values

    def expr(self, node: Expr) -> Expr:
        return substitute(node, self._values)


class _LoadFromFragments(Rewriter):
    """Replaces loads by those of fragments."""

    def __init__(self, separated: SeparateLoads) -> None:
        self._separated = separated

    def expr(self, node: Expr) -> Expr:
        element = self._separated.element(node) if isinstance(node, Load) else None
        return element if element is not None else self.rebuild_expr(node)


def values_of(names: Sequence[Stmt]) -> Mapping[Var, Expr]:
    """The values of the variables that an iteration binds, without variables of each other."""
    values: dict[Var, Expr] = {}
    for bind in names:
        assert isinstance(bind, Bind)
        values[bind.var] = substitute(bind.value, values)
    return values
