"""Legality of running the iterations of a `T.Parallel` loop on several threads.

Takes a loop and the facts that hold around it, gives a `ParallelLegality`. Invariant: running the iterations in any
order, each on one thread (or on several that repeat its effects on per-thread memory), gives the sequential result,
provided that reductions are accumulated per thread and combined afterwards, that updates in `atomics` are atomic, that
stores in `final` execute only in the iterations listed there, and that scalars in `last` take the value of the last
iteration. A non-empty `reason` means that the iterations must run in order. Buffers declared sequential are private to
each thread and are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field

import numpy as np

from tilelang.analysis.accesses import Access, Accesses, accesses
from tilelang.analysis.reductions import PICK, Update
from tilelang.analysis.subscripts import Comparison
from tilelang.analysis.thread_accesses import SHARED_BY_THREADS
from tilelang.arith.affine import Sum, to_expr
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var, const, int_const
from tilelang.ir.stmt import AtomicOp, ParallelLoop, Stmt, Store
from tilelang.ir.visit import loads_of, substitute, variables_of, walk_expr
from tilelang.records import record

_OF_THREAD = (Scope.VAR, Scope.LOCAL)
_MAX_EVALUATED = 1 << 16  # iterations whose subscripts are compared one by one

ATOMICS = {
    "+": AtomicOp.ADD,
    "min": AtomicOp.MIN,
    "max": AtomicOp.MAX,
    "&": AtomicOp.AND,
    "|": AtomicOp.OR,
    "^": AtomicOp.XOR,
}
_BITS = ("&", "|", "^")


@record(slots=True, eq=False)
class ParallelReduction:
    """An element that iterations update by one associative operator.

    Attributes:
        buffer: The element's buffer.
        indices: Its subscripts, in the variables that select it.
        op: "+", "*", "min", "max", "fmin", "fmax", "&", "|" or "^".
        selected_by: The loop variables that select the element; iterations that differ in one update different ones.
        updates: The stores of the update.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    op: str
    selected_by: frozenset[Var]
    updates: tuple[Update, ...]


@record(frozen=False, slots=True)
class ParallelLegality:
    """Requirements on a lowering that distributes a parallel loop over threads.

    Attributes:
        reductions: Reductions: elements that several iterations update, in order of first appearance.
        atomics: Updates of elements where different iterations may collide unpredictably; lowered to atomics.
        last_value_stores: Stores of several iterations to one element, with the variables whose last value they need.
        live_out: Scalars defined outside of the loop whose value of the last iteration is used after it.
        reason: Why the loop must run sequentially; empty if it may run in parallel.
    """

    reductions: list[ParallelReduction] = field(default_factory=list)
    atomics: dict[Store, Update] = field(default_factory=dict)
    last_value_stores: dict[Store, tuple[Var, ...]] = field(default_factory=dict)
    live_out: list[Buffer] = field(default_factory=list)
    reason: str = ""


def parallel_legality(loop: ParallelLoop, domain: Domain, used_outside: Callable[[Buffer], bool]) -> ParallelLegality:
    """Analyzes whether a loop may be distributed over threads.

    Args:
        loop: The loop; it contains no other parallel loop.
        domain: Ranges and facts that hold around it.
        used_outside: Whether a buffer is live after the loop.
    """
    inside = domain
    for var, extent in zip(loop.vars, loop.extents, strict=True):
        inside = inside.with_loop(var, 0, extent)
    found = accesses(loop.body)
    checker = _Checker(loop, found, Comparison(found, inside), used_outside)
    for storage, storage_accesses in found.by_storage().items():
        if any(a.write and not a.atomic for a in storage_accesses) and not storage.sequential:
            checker.storage(storage, storage_accesses)
    return checker.legality


class _Checker:
    def __init__(
        self, loop: ParallelLoop, found: Accesses, compare: Comparison, used_outside: Callable[[Buffer], bool]
    ) -> None:
        self._loop, self._found, self._compare = loop, found, compare
        self._extents = dict(zip(loop.vars, loop.extents, strict=True))
        self._single = {var: const(0, INT32) for var, extent in self._extents.items() if int_const(extent) == 1}
        self._used_outside = used_outside
        self.legality = ParallelLegality()

    def storage(self, storage: Buffer, storage_accesses: list[Access]) -> None:
        """Checks all accesses to one storage that the loop writes."""
        of_thread = storage.scope in _OF_THREAD
        if of_thread and not self._vars() and not self._subscripts(storage_accesses):
            if self._used_outside(storage):
                self._refuse(f"all threads use what the only iteration leaves in '{storage.name}'")
        elif all(self._selects_elements(var, storage_accesses) for var in self._vars()):
            return  # iterations access disjoint elements
        elif of_thread and storage_accesses[0].write and storage_accesses[0].update is None:
            self._private(storage, storage_accesses)
        elif any(a.update is not None and a.write for a in storage_accesses):
            self._updates(storage, storage_accesses)
        elif of_thread:
            self._refuse(f"an iteration may use what another one left in '{storage.name}'")
        else:
            self._stores(storage, storage_accesses)

    def _vars(self) -> list[Var]:
        """The variables that take more than one value."""
        return [var for var in self._extents if var not in self._single]

    def _subscripts(self, storage_accesses: list[Access]) -> bool:
        """Whether a variable of the loop is part of a subscript."""
        indices = [index for access in storage_accesses for index in access.start]
        return any(var in self._extents for index in indices for var in variables_of(index))

    def _selects_elements(self, var: Var, storage_accesses: list[Access]) -> bool:
        """Whether iterations that differ in a variable access different elements."""
        trips = int_const(self._extents[var])
        return all(
            self._compare.disjoint(first, second, var, trips, others=self._loop.vars)
            for i, first in enumerate(storage_accesses)
            for second in storage_accesses[i:]
            if first.write or second.write
        )

    def _refuse(self, reason: str) -> None:
        self.legality.reason = self.legality.reason or reason

    # -- updates ----------------------------------------------------------------------------------------------
    def _updates(self, storage: Buffer, storage_accesses: list[Access]) -> None:
        operators = {None if a.update is None else a.update.op for a in storage_accesses}
        (op, *others) = operators
        if others or op is None or any(a.buffer is not storage for a in storage_accesses):
            self._refuse(f"iterations update '{storage.name}' and use it in other ways")
            return
        groups: dict[object, list[Access]] = {}
        for access in storage_accesses:
            groups.setdefault(tuple(expr_key(index) for index in access.start), []).append(access)
        if len(groups) == 1 and self._are_distinct(storage_accesses[0]):
            return
        for group in groups.values():
            self._reduce(storage, op, group)

    def _reduce(self, storage: Buffer, op: str, group: list[Access]) -> None:
        updates = tuple(a.update for a in group if a.write and a.update is not None)
        named = self._named(group[0])
        selected_by = frozenset(var for var in self._vars() if self._selects_elements(var, group))
        plain = named is not None and named <= selected_by and op != PICK
        if plain and _has_neutral(op, storage):
            indices = tuple(substitute(index, self._single) for index in group[0].start)
            self.legality.reductions.append(ParallelReduction(storage, indices, op, selected_by, updates))
        elif selected_by == frozenset(self._vars()):
            return
        elif storage.scope in SHARED_BY_THREADS and _is_atomic(op, storage):
            self.legality.atomics.update({update.store: update for update in updates})
        else:
            self._refuse(f"iterations update elements of '{storage.name}' that they may share")

    def _are_distinct(self, access: Access) -> bool:
        """Whether all iterations have elements of their own by their subscripts' values, as in `S[i * 3 % 64]`."""
        extents = {var: int_const(extent) or 0 for var, extent in self._extents.items()}
        trips = math.prod(extents.values())
        if not 0 < trips <= _MAX_EVALUATED or self._named(access) != frozenset(self._vars()):
            return False
        points = dict(zip(extents, np.unravel_index(np.arange(trips), tuple(extents.values())), strict=True))
        places = []
        for linear in self._compare.sums(access):
            moving = {term: c for term, c in linear.terms.items() if self._compare.varies(term, self._loop.vars)}
            atoms = [key.expr for term in moving for key in term]
            if any(loads_of(atom) or not variables_of(atom) <= points.keys() for atom in atoms):
                return False
            places.append(np.broadcast_to(evaluate(to_expr(Sum(moving, 0)), points, exact=True), trips))
        return bool(places) and np.unique(np.stack(places), axis=1).shape[1] == trips

    def _named(self, access: Access) -> frozenset[Var] | None:
        """The variables with more than one value in the subscripts; None if they depend on other changing values."""
        varying, named = frozenset(self._vars()), set()
        for linear in self._compare.sums(access):
            for term in linear.terms:
                for node in (e for key in term for e in walk_expr(key.expr)):
                    if isinstance(node, Load) and node.buffer.storage in self._changing():
                        return None
                    if isinstance(node, Var) and node in self._found.defined:
                        return None
                    if isinstance(node, Var) and node in varying:
                        named.add(node)
        return frozenset(named)

    def _changing(self) -> frozenset[Buffer]:
        return frozenset(a.buffer.storage for a in self._found.writes) | self._found.local

    # -- plain stores -----------------------------------------------------------------------------------------
    def _private(self, storage: Buffer, storage_accesses: list[Access]) -> None:
        """A per-thread scalar or array that iterations write before they read it."""
        first = storage_accesses[0]
        used_outside = self._used_outside(storage)
        always = not first.context.uncertain and not first.context.conditions()
        if storage.rank == 0 and not always and (used_outside or not writes_first(storage_accesses)):
            self._refuse(f"an iteration may use what another one left in '{storage.name}'")
        elif used_outside:
            if storage.rank == 0 and first.buffer is storage:
                self.legality.live_out.append(storage)
            else:
                self._refuse(f"what the last iteration leaves in '{storage.name}' is used afterwards")

    def _stores(self, storage: Buffer, storage_accesses: list[Access]) -> None:
        """Stores of several iterations to one element: only the last one is executed."""
        for access in storage_accesses:
            named = self._named(access)
            if named is None or not isinstance(access.stmt, Store) and access.write:
                continue  # loaded subscripts: the user guarantees that iterations do not conflict
            still = tuple(var for var in self._vars() if var not in named)
            if not still or not access.write:
                continue
            assert isinstance(access.stmt, Store)
            if storage.scope is Scope.FRAGMENT:
                if self._depends(access.stmt, frozenset(still)):
                    self._refuse(f"iterations write different values to one element of '{storage.name}'")
            elif access.context.uncertain or access.context.conditions() or any(not a.write for a in storage_accesses):
                self._refuse(f"iterations write one element of '{storage.name}' now and then")
            else:
                self.legality.last_value_stores[access.stmt] = still

    def _depends(self, store: Store, still: frozenset[Var]) -> bool:
        """Whether the stored value may depend on some variables."""
        stack, seen = [store.value], set()
        while stack:
            for node in walk_expr(stack.pop()):
                if isinstance(node, Var):
                    if node in still or (node in self._found.defined and node not in self._found.values):
                        return True
                    if node in self._found.values and node not in seen:
                        seen.add(node)
                        stack.append(self._found.values[node])
                if isinstance(node, Load) and node.buffer.storage in self._changing():
                    return True
        return False


def _has_neutral(op: str, buffer: Buffer) -> bool:
    return buffer.dtype.lanes == 1 and (op != "*" or not buffer.dtype.is_bool)


def _is_atomic(op: str, buffer: Buffer) -> bool:
    """Whether there are atomic instructions, or CAS loops, for an update."""
    dtype = buffer.dtype
    if dtype.lanes > 1 or dtype.is_bool or op not in ATOMICS:
        return False
    return dtype.is_int if op in _BITS else True


def is_private(storage: Buffer, stmt: Stmt) -> bool:
    """Whether a statement writes a per-thread buffer before it reads it, so that previous contents are dead."""
    storage_accesses = accesses(stmt).by_storage().get(storage)
    if not storage_accesses:
        return True
    return writes_first(storage_accesses)


def writes_first(storage_accesses: list[Access]) -> bool:
    """Whether a write dominates all other accesses."""
    first = storage_accesses[0]
    return first.write and all(first.context.is_reached_by(access.context) for access in storage_accesses)
