"""Whether two accesses of a block may conflict: access one element from different threads.

Takes pairs of `ThreadAccess`es. Invariant: False is a proof that no two different threads access one element by them in
an order that matters; True means that they may. One thread releases to other blocks what all threads of its block did
to global memory, and acquires for all of them. Indices that depend on the thread index and on variables with few values
are enumerated for all threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tilelang.analysis.thread_accesses import SHARED_BY_THREADS, FreeVariable, ThreadAccess
from tilelang.analysis.thread_elements import MANY, Elements, enumerated, share_elements
from tilelang.analysis.uniformity import Uniformity
from tilelang.arith.affine import Linearizer, Sum, to_expr
from tilelang.arith.domain import Domain
from tilelang.arith.interval import analysis_of
from tilelang.arith.ranges import ANYTHING, Interval, add, scale
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Binary, Expr, Load, Var
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import loads_of, variables_of, walk, walk_expr, written_buffers
from tilelang.records import record

_FEW = 64  # distances between two accesses that are enumerated

Distances = tuple[tuple[int, ...] | None, ...]  # the values that those of the common parts may have in each dimension


@record(slots=True)
class _Index:
    """One dimension of an access: `common + own`, where threads differ in `own` only.

    Attributes:
        common: The uniform part, equal for both accesses; None if the index is not of this form.
        own: The value per thread and those free variables that the dimension names, of shape (threads, combinations);
            None if the index is not of this form, or there are too many combinations.
        reach: Bounds of everything but `common`; of the whole index if `common` is None.
        varying: `own` as an expression of the thread index and free variables.
        names: The free variables in it.
    """

    common: Sum | None
    own: np.ndarray | None
    reach: Interval
    varying: Expr | None = None
    names: frozenset[Var] = frozenset()

    @property
    def is_fixed(self) -> bool:
        """Whether `own` is 0."""
        return self.common is not None and self.varying is None


class Conflicts:
    """Conflicts between the accesses of one launch.

    Args:
        launch: At thread level.
        uniform: Which values are uniform over the block.

    Attributes:
        subgroup_size: Neighboring threads ordered by other means; only threads of different subgroups conflict.
    """

    def __init__(self, launch: Launch, uniform: Uniformity) -> None:
        self.subgroup_size = 1
        self._threads = launch.num_threads
        self._thread = launch.thread
        self._uniform = uniform
        plan = launch.plan
        self._bytes = {
            buffer: range(offset, offset + plan.shared_elements(buffer) * buffer.dtype.storage_bytes)
            for buffer, offset in plan.shared_offsets
        }
        self._linear = Linearizer()
        self._indices: dict[tuple[object, ...], _Index] = {}  # by index and its free variables, as are tables
        self._tables: dict[tuple[object, ...], np.ndarray | None] = {}
        self._dimensions_of: dict[int, tuple[ThreadAccess, tuple[_Index, ...]]] = {}
        self._gaps: dict[tuple[int, int], Sum] = {}
        self._alike: dict[int, tuple[ThreadAccess, ThreadAccess]] = {}
        self._first: dict[tuple[object, ...], ThreadAccess] = {}  # of accesses that are alike
        self._overlaps: dict[tuple[object, ...], bool] = {}  # of those, by distances and subgroup size
        self._active: dict[tuple[int, frozenset[Var] | None], tuple[ThreadAccess, np.ndarray | None]] = {}
        # by later access and subgroup size: that access, and whether earlier ones (by identity) conflict with it
        self._known: dict[tuple[int, int], tuple[ThreadAccess, dict[int, bool]]] = {}
        self._compared: list[ThreadAccess] = []  # kept, so that identities stay unique
        self._columns: dict[tuple[int, int], tuple[ThreadAccess, Elements | None]] = {}
        self._written = {b.storage for s in walk(launch.body) for b in written_buffers(s)}
        self._may_conflict: dict[Buffer, bool] = {}

    def may_conflict(self, buffer: Buffer) -> bool:
        """Whether accesses to a buffer can conflict at all: threads share it, and the launch writes its bytes."""
        cached = self._may_conflict.get(buffer)
        if cached is None:
            storage = buffer.storage
            written = storage in self._written or any(self._share_bytes(storage, w) for w in self._written)
            cached = self._may_conflict[buffer] = buffer.scope in SHARED_BY_THREADS and written
        return cached

    def conflict(self, x: ThreadAccess, y: ThreadAccess, domain: Domain) -> bool:
        """Whether two threads may access one element by them, in an order that matters.

        Args:
            x: The earlier access.
            y: The later one; both are expressed at its program point.
            domain: The facts at the later one.
        """
        return bool(self.conflicting([x], y, domain))

    def conflicting(self, earlier: Iterable[ThreadAccess], y: ThreadAccess, domain: Domain) -> list[ThreadAccess]:
        """Those of several earlier accesses that conflict with a later one; the other arguments are as above."""
        _, known = self._known.setdefault((id(y), self.subgroup_size), (y, {}))
        found = []
        for x in earlier:
            if not (x.write or y.write or x.acquires or y.releases):
                continue
            answer = known.get(id(x))
            if answer is None:
                answer = known[id(x)] = self._of_subgroups(x, y, domain)
                self._compared.append(x)
            if answer:
                found.append(x)
        return found

    def _of_subgroups(self, x: ThreadAccess, y: ThreadAccess, domain: Domain) -> bool:
        """Whether accesses of threads of different subgroups conflict; never, if those of threads do not."""
        _, of_threads = self._known.get((id(y), 1), (y, {}))
        return of_threads.get(id(x), True) and self._conflict(x, y, domain)

    def _conflict(self, x: ThreadAccess, y: ThreadAccess, domain: Domain) -> bool:
        if self._threads <= self.subgroup_size or x.explicitly_ordered and y.explicitly_ordered:
            return False
        if x.single_thread is not None and x.single_thread == y.single_thread:
            return False
        if self._transfers_visibility(x, y):
            return True
        if not (x.write or y.write) or _commute(x, y) or x.spins and y.atomic:
            return False
        if x.buffer.storage is not y.buffer.storage:
            return self._share_bytes(x.buffer.storage, y.buffer.storage)
        return self._may_overlap(x, y, domain)

    def _transfers_visibility(self, x: ThreadAccess, y: ThreadAccess) -> bool:
        """Whether a release covers an access of another thread, or an acquire an access of another thread."""
        if y.releases and x.buffer.scope is Scope.GLOBAL:
            return self._by_different_threads(x, y)
        if not x.acquires or y.buffer.scope is not Scope.GLOBAL:
            return False
        per_thread = x.by_all_threads and len(self._executing_threads(x)) == self._threads
        if per_thread and all(index.is_fixed for index in self._dimensions(x)):
            return False  # each thread acquires by itself
        return self._by_different_threads(x, y)

    def _executing_threads(self, access: ThreadAccess) -> np.ndarray:
        """The threads that may execute an access."""
        mask = self._mask(access)
        return np.arange(self._threads) if mask is None else np.flatnonzero(mask.any(axis=1))

    def _by_different_threads(self, x: ThreadAccess, y: ThreadAccess) -> bool:
        mine, other = (np.unique(self._executing_threads(access) // self.subgroup_size) for access in (x, y))
        return bool(len(mine) and len(other)) and len(np.union1d(mine, other)) > 1

    def _share_bytes(self, a: Buffer, b: Buffer) -> bool:
        """Whether the allocations of two buffers in shared memory overlap."""
        first, second = self._bytes.get(a), self._bytes.get(b)
        return first is not None and second is not None and first.start < second.stop and second.start < first.stop

    # -- elements --------------------------------------------------------------------------------------------
    def _may_overlap(self, x: ThreadAccess, y: ThreadAccess, domain: Domain) -> bool:
        if x.buffer is not y.buffer:
            return True
        gaps = [self._gap(f, g) for f, g in zip(self._dimensions(x), self._dimensions(y), strict=True)]
        if any(gap is not None and gap.terms for gap in gaps):
            return self._ranges_overlap(x, y, gaps, domain)
        alike = id(self._first_alike(x)), id(self._first_alike(y))
        key = (*alike, self.subgroup_size, *[gap and gap.constant for gap in gaps])
        if key not in self._overlaps:
            self._overlaps[key] = self._ranges_overlap(x, y, gaps, domain)
        return self._overlaps[key]

    def _gap(self, f: _Index, g: _Index) -> Sum | None:
        """The distance between the common parts of two indices; None if they have none."""
        if f.common is None or g.common is None:
            return None
        key = (id(f), id(g))  # these are kept
        if key not in self._gaps:
            self._gaps[key] = f.common.plus(g.common, -1)
        return self._gaps[key]

    def _ranges_overlap(self, x: ThreadAccess, y: ThreadAccess, gaps: Sequence[Sum | None], domain: Domain) -> bool:
        distances = []
        ends = zip(self._dimensions(x), self._dimensions(y), gaps, x.extent, y.extent, strict=True)
        for f, g, gap, length, other in ends:
            if self._ranges_disjoint(f, g, gap, length, other, domain):
                return False
            distances.append(None if gap is None or length is None or other is None else _values(gap, domain))
        return self._elements_overlap(self._first_alike(x), self._first_alike(y), tuple(distances))

    def _first_alike(self, access: ThreadAccess) -> ThreadAccess:
        """The first access whose indices differ from those of an access in common parts only."""
        cached = self._alike.get(id(access))
        if cached is None:
            found = self._dimensions(access)
            own = tuple((f.common is None, None if f.varying is None else expr_key(f.varying)) for f in found)
            key = (own, access.extent, tuple(map(expr_key, access.conditions)), access.free)
            cached = self._alike[id(access)] = (access, self._first.setdefault(key, access))
        return cached[1]

    def _elements_overlap(self, x: ThreadAccess, y: ThreadAccess, distances: Distances) -> bool:
        """Whether threads of different subgroups may access one element.

        Args:
            x: The earlier access, or one that is alike.
            y: The later one.
            distances: Those of common parts.
        """
        key = (id(x), id(y), self.subgroup_size, distances)
        answer = self._overlaps.get(key)
        if answer is None:
            disjoint = self._disjoint_in_one_dimension(x, y, distances)
            answer = self._overlaps[key] = not disjoint and self._different_threads(x, y, distances)
        return answer

    def _disjoint_in_one_dimension(self, x: ThreadAccess, y: ThreadAccess, distances: Distances) -> bool:
        """Whether a single dimension proves that threads of different subgroups access different elements."""
        for d, gaps in enumerate(distances):
            mine, theirs = self._column(x, d), self._column(y, d)
            if gaps is None or mine is None or theirs is None:
                continue
            if not any(share_elements(mine.moved(gap), theirs, self.subgroup_size) for gap in gaps):
                return True
        return False

    def _column(self, access: ThreadAccess, dimension: int) -> Elements | None:
        """The elements that threads access in one dimension, without the common part; None if they are too many."""
        key = (id(access), dimension)
        if key not in self._columns:
            own, extent = self._dimensions(access)[dimension].own, access.extent[dimension]
            found = None
            if own is not None and extent is not None:
                found = enumerated([own], [extent], self._mask(access, frozenset()), self._threads)
            self._columns[key] = (access, found)
        return self._columns[key][1]

    def _dimensions(self, access: ThreadAccess) -> tuple[_Index, ...]:
        cached = self._dimensions_of.get(id(access))
        if cached is None:
            found = tuple(self._index(e, access) for e in access.start)
            cached = self._dimensions_of[id(access)] = (access, found)
        return cached[1]

    def _ranges_disjoint(
        self, f: _Index, g: _Index, common: Sum | None, length: int | None, other: int | None, domain: Domain
    ) -> bool:
        """Whether ranges prove that indices of a dimension are disjoint; `common` is the distance of common parts."""
        if common is None or f.common is None or g.common is None:
            gap = add(f.reach, scale(g.reach, -1)) if f.common is None and g.common is None else ANYTHING
        else:
            fixed = length == other == 1 and f.is_fixed and g.is_fixed
            if fixed and _of_other_versions(f.common, g.common, self._linear):
                return True
            gap = add(analysis_of(domain).sum_bounds(common), add(f.reach, scale(g.reach, -1)))
        above = other is not None and gap.low is not None and gap.low >= other
        below = length is not None and gap.high is not None and gap.high <= -length
        return above or below

    def _index(self, expr: Expr | None, access: ThreadAccess) -> _Index:
        if expr is None or not expr.dtype.is_int:
            return _Index(None, None, ANYTHING)
        used = variables_of(expr)
        key = (expr_key(expr), *(f for f in access.free if f.var in used))
        if key not in self._indices:
            self._indices[key] = self._integer_index(expr, access)
        return self._indices[key]

    def _integer_index(self, expr: Expr, access: ThreadAccess) -> _Index:
        numbered = {f.var: f for f in access.free}
        linear = self._linear.sum(expr)
        common, own = Sum({}, linear.constant), Sum({}, 0)
        for term, factor in linear.terms.items():
            names = {n for key in term for n in walk_expr(key.expr) if isinstance(n, Var | Load)}
            if all(isinstance(n, Var) and n not in numbered and self._uniform.is_uniform(n) for n in names):
                common.terms[term] = factor
            elif all(n is self._thread or n in numbered for n in names):
                own.terms[term] = factor
            else:
                return _Index(None, None, ANYTHING)
        if not own.terms:
            return _Index(common, np.zeros((self._threads, 1), np.int64), Interval(0, 0))
        varying = to_expr(own)
        named = frozenset(n for n in walk_expr(varying) if isinstance(n, Var) and n is not self._thread)
        table = self._table(varying, access, named)
        if table is None:
            return _Index(common, None, self._reach(own, numbered), varying, named)
        reach = Interval(int(table.min()), int(table.max())) if table.size else ANYTHING
        return _Index(common, table, reach, varying, named)

    def _reach(self, own: Sum, free: Mapping[Var, FreeVariable]) -> Interval:
        domain = Domain()
        if self._thread is not None:
            domain = domain.with_range(self._thread, 0, self._threads - 1)
        for entry in free.values():
            domain = domain.with_range(entry.var, entry.low, entry.high)
        return analysis_of(domain).sum_bounds(own)

    def _axes(self, access: ThreadAccess, names: frozenset[Var] | None) -> list[FreeVariable] | None:
        """The free variables with known values, optionally only some of them; None if there are too many values."""
        axes = [f for f in access.free if f.values is not None and (names is None or f.var in names)]
        count = self._threads * math.prod(len(f.values or ()) for f in axes)
        return axes if count <= MANY else None

    def _table(self, expr: Expr, access: ThreadAccess, names: frozenset[Var] | None = None) -> np.ndarray | None:
        """The values of an expression of the thread index and (some of) the free variables."""
        axes = self._axes(access, names)
        if axes is None:
            return None
        key = (expr_key(expr), *axes)
        if key not in self._tables:
            self._tables[key] = self._table_over(axes, expr)
        return self._tables[key]

    def _table_over(self, axes: Sequence[FreeVariable], expr: Expr) -> np.ndarray | None:
        shape = (self._threads, *(len(f.values or ()) for f in axes))
        env: dict[Var, np.ndarray] = {}
        if self._thread is not None:
            env[self._thread] = _along(range(self._threads), 0, len(shape))
        for axis, free in enumerate(axes, 1):
            env[free.var] = _along(free.values or range(0), axis, len(shape))
        if any(isinstance(n, Var) and n not in env for n in walk_expr(expr)):
            return None
        table: np.ndarray = np.broadcast_to(np.asarray(evaluate(expr, env)), shape)
        return table.reshape(self._threads, math.prod(shape[1:]))

    def _mask(self, access: ThreadAccess, names: frozenset[Var] | None = None) -> np.ndarray | None:
        """For which threads and (some of the) free variables the access may happen, according to its conditions.

        Conditions on other variables are ignored.
        """
        cached = self._active.get((id(access), names))
        if cached is None:
            mask: np.ndarray | None = None
            for condition in access.conditions:
                if loads_of(condition):
                    continue
                table = self._table(condition, access, names)
                if table is not None:
                    mask = table.astype(bool) if mask is None else mask & table.astype(bool)
            cached = self._active[(id(access), names)] = (access, mask)
        return cached[1]

    def _different_threads(self, x: ThreadAccess, y: ThreadAccess, distances: Distances) -> bool:
        """Whether an element of `x` is one of `y` for a thread of another subgroup, in dimensions of known distance."""
        known = zip(self._dimensions(x), self._dimensions(y), distances, strict=True)
        gaps = {
            d: gap[0]
            for d, (f, g, gap) in enumerate(known)
            if f.own is not None and g.own is not None and gap is not None and len(gap) == 1
        }
        mine, other = self._elements_of(x, gaps), self._elements_of(y, dict.fromkeys(gaps, 0))
        if mine is None or other is None:
            return True
        return share_elements(mine, other, self.subgroup_size)

    def _elements_of(self, access: ThreadAccess, moved: Mapping[int, int]) -> Elements | None:
        """The elements of an access in some dimensions, each moved by a distance."""
        named = frozenset(name for d in moved for name in self._dimensions(access)[d].names)
        in_conditions = {n for condition in access.conditions for n in walk_expr(condition) if isinstance(n, Var)}
        found = self._elements_over(named | in_conditions, access, moved)
        return self._elements_over(named, access, moved) if found is None else found

    def _elements_over(self, names: frozenset[Var], access: ThreadAccess, moved: Mapping[int, int]) -> Elements | None:
        """The same for all values of these free variables; None if they are too many."""
        indices = {d: self._dimensions(access)[d] for d in moved}
        starts: list[np.ndarray] = []
        for d, index in indices.items():
            table = index.own if index.varying is None else self._table(index.varying, access, names)
            if table is None:
                return None
            starts.append(table + moved[d])
        return enumerated(starts, [access.extent[d] or 1 for d in moved], self._mask(access, names), self._threads)


def _values(linear: Sum, domain: Domain) -> tuple[int, ...] | None:
    """All values of a sum of bounded terms; None if there are too many, or a term is unbounded."""
    values, analysis = {linear.constant}, analysis_of(domain)
    for term, factor in linear.terms.items():
        bounds = analysis.term_bounds(term)
        if bounds.low is None or bounds.high is None or len(values) * (bounds.high - bounds.low + 1) > _FEW:
            return None
        values = {value + factor * step for value in values for step in range(bounds.low, bounds.high + 1)}
    return tuple(values)


def _commute(x: ThreadAccess, y: ThreadAccess) -> bool:
    """Whether both orders of two accesses have the same outcome: they are atomic updates by one operation."""
    same_elements = x.buffer.storage is y.buffer.storage and x.buffer.dtype is y.buffer.dtype
    return x.commutes is not None and x.commutes is y.commutes and same_elements


def of_other_versions(a: Expr, b: Expr) -> bool:
    """Whether both are `(...) % S`, of numbers that differ by a constant that S does not divide."""
    linear = Linearizer()
    return a.dtype.is_int and b.dtype.is_int and _of_other_versions(linear.sum(a), linear.sum(b), linear)


def _of_other_versions(f: Sum, g: Sum, linear: Linearizer) -> bool:
    a, b = _remainder(f), _remainder(g)
    if a is None or b is None:
        return False
    gap = linear.sum(a.a).plus(linear.sum(b.a), -1)
    modulus, same = linear.sum(a.b), linear.sum(b.b)
    if modulus.terms or same.terms or modulus.constant != same.constant or modulus.constant <= 0:
        return False
    return not gap.terms and gap.constant % modulus.constant != 0


def _remainder(linear: Sum) -> Binary | None:
    if linear.constant or len(linear.terms) != 1:
        return None
    (term, factor), = linear.terms.items()
    node = term[0].expr
    plain = factor == 1 and len(term) == 1 and isinstance(node, Binary) and node.op is BinaryOp.FLOORMOD
    return node if plain and isinstance(node, Binary) else None


def _along(values: range, axis: int, rank: int) -> np.ndarray:
    return np.arange(values.start, values.stop, values.step).reshape([-1 if a == axis else 1 for a in range(rank)])
