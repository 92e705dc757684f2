"""Whether two accesses of a block's threads may touch one element from different threads.

Takes `Touch`es, gives proofs. Invariant: an answer of False is a proof that no two different threads touch one element
by these two accesses, or that it does not matter; True means "they may". One thread releases to other blocks what all
threads of its block did to global memory, and acquires for all of them. Questions about constant index arithmetic of
the thread index are settled by looking at all threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tilelang.analysis.thread_accesses import SHARED_BY_THREADS, Free, Touch
from tilelang.analysis.uniform import Uniformity
from tilelang.arith.affine import Linearizer, Sum, to_expr
from tilelang.arith.domain import Domain
from tilelang.arith.interval import analysis_of
from tilelang.arith.ranges import ANYTHING, Interval, add, scale
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Binary, Expr, Load, Var
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk, walk_expr, written_buffers
from tilelang.records import record

_MANY = 1 << 17  # elements looked at one by one; beyond, ranges decide
_FEW = 64  # distances between two accesses looked at one by one


@record(slots=True)
class _Index:
    """One dimension of a touch: `common + own`, where threads differ in `own` only.

    Attributes:
        common: What all threads and both moments agree on; None if the dimension is not plain.
        own: The value per thread and those free variables that the dimension names, of shape (threads, combinations);
            None if it is not plain, or these are too many.
        reach: Bounds of everything but `common`; of the whole index if `common` is None.
        moving: `own` as an expression of the thread index and free variables.
        names: The free variables in it.
    """

    common: Sum | None
    own: np.ndarray | None
    reach: Interval
    moving: Expr | None = None
    names: frozenset[Var] = frozenset()

    @property
    def is_fixed(self) -> bool:
        """Whether `own` is 0."""
        return self.common is not None and self.moving is None


class Conflicts:
    """Answers for one launch.

    Args:
        launch: At thread level.
        uniform: What is the same in all threads.

    Attributes:
        team: How many neighboring threads are kept in order by themselves; only threads of different teams conflict.
    """

    def __init__(self, launch: Launch, uniform: Uniformity) -> None:
        self.team = 1
        self._threads = launch.num_threads
        self._thread = launch.thread
        self._uniform = uniform
        self._plan = launch.plan
        self._offsets: Mapping[Buffer, int] = dict(launch.plan.shared_offsets)
        self._linear = Linearizer()
        self._indices: dict[int, tuple[Touch, tuple[_Index, ...]]] = {}
        self._active: dict[tuple[int, frozenset[Var] | None], tuple[Touch, np.ndarray | None]] = {}
        self._known: dict[tuple[int, int, int], tuple[Touch, Touch, bool]] = {}
        self._written = {b.storage for s in walk(launch.body) for b in written_buffers(s)}
        self._matters: dict[Buffer, bool] = {}

    def matters(self, buffer: Buffer) -> bool:
        """Whether any access to a buffer may be in a conflict: threads share it, and the launch writes its bytes."""
        known = self._matters.get(buffer)
        if known is None:
            storage = buffer.storage
            written = storage in self._written or any(self._share_bytes(storage, w) for w in self._written)
            known = self._matters[buffer] = buffer.scope in SHARED_BY_THREADS and written
        return known

    def conflict(self, x: Touch, y: Touch, domain: Domain) -> bool:
        """Whether the accesses may touch one element from two threads, in an order that matters.

        Args:
            x: The earlier access.
            y: The later one, seen from whose moment both are told.
            domain: What is known at the later one.
        """
        alone = self._threads <= self.team or x.alone is not None and x.alone == y.alone
        if alone or x.arranged and y.arranged:
            return False
        if self._passed_on(x, y):
            return True
        if not (x.write or y.write) or x.atomic and y.atomic:
            return False
        if x.buffer.storage is not y.buffer.storage:
            return self._share_bytes(x.buffer.storage, y.buffer.storage)
        known = self._known.get((id(x), id(y), self.team))
        if known is None:
            threads = self._known.get((id(x), id(y), 1))  # where no two threads meet, no two teams do
            met = (threads is None or threads[2]) and self._meet(x, y, domain)
            known = self._known[(id(x), id(y), self.team)] = (x, y, met)
        return known[2]

    def _passed_on(self, x: Touch, y: Touch) -> bool:
        """Whether a thread shows other blocks what another one did, or saw of other blocks what another one uses."""
        if y.releases and x.buffer.scope is Scope.GLOBAL:
            return self._by_different_threads(x, y)
        if not x.acquires or y.buffer.scope is not Scope.GLOBAL:
            return False
        if x.by_all and len(self._makers(x)) == self._threads and all(index.is_fixed for index in self._touch(x)):
            return False  # each has seen for itself
        return self._by_different_threads(x, y)

    def _makers(self, touch: Touch) -> np.ndarray:
        """The threads that may make an access."""
        mask = self._mask(touch)
        return np.arange(self._threads) if mask is None else np.flatnonzero(mask.any(axis=1))

    def _by_different_threads(self, x: Touch, y: Touch) -> bool:
        mine, other = (np.unique(self._makers(touch) // self.team) for touch in (x, y))
        return bool(len(mine) and len(other)) and len(np.union1d(mine, other)) > 1

    def _share_bytes(self, a: Buffer, b: Buffer) -> bool:
        """Whether two buffers lie over each other in the arena."""
        if a not in self._offsets or b not in self._offsets:
            return False
        first, second = self._offsets[a], self._offsets[b]
        return first < second + self._size(b) and second < first + self._size(a)

    def _size(self, buffer: Buffer) -> int:
        return self._plan.shared_elements(buffer) * buffer.dtype.storage_bytes

    # -- elements --------------------------------------------------------------------------------------------
    def _meet(self, x: Touch, y: Touch, domain: Domain) -> bool:
        if x.buffer is not y.buffer:
            return True
        gaps: dict[int, int] = {}
        mine, other = self._touch(x), self._touch(y)
        for d, (f, g) in enumerate(zip(mine, other, strict=True)):
            if self._apart(f, g, x.extent[d], y.extent[d], domain):
                return False
            if f.common is None or g.common is None or f.own is None or g.own is None:
                continue
            gap = f.common.plus(g.common, -1)
            if not gap.terms and x.extent[d] is not None and y.extent[d] is not None:
                gaps[d] = gap.constant
        return not self._apart_along_one(x, y, domain) and self._different_threads(x, y, gaps)

    def _apart_along_one(self, x: Touch, y: Touch, domain: Domain) -> bool:
        """Whether one dimension by itself shows that threads of different teams touch different elements."""
        for d, (f, g) in enumerate(zip(self._touch(x), self._touch(y), strict=True)):
            length, other = x.extent[d], y.extent[d]
            if f.common is None or g.common is None or f.own is None or g.own is None:
                continue
            gaps = None if length is None or other is None else _values(f.common.plus(g.common, -1), domain)
            if gaps is None or length is None or other is None:
                continue
            theirs = _elements([g.own], [other], self._mask(y, frozenset()), self._threads)
            mine = [_elements([f.own + gap], [length], self._mask(x, frozenset()), self._threads) for gap in gaps]
            if theirs is not None and all(m is not None and not self._common(m, theirs) for m in mine):
                return True
        return False

    def _touch(self, touch: Touch) -> tuple[_Index, ...]:
        known = self._indices.get(id(touch))
        if known is None:
            known = self._indices[id(touch)] = (touch, tuple(self._index(e, touch) for e in touch.start))
        return known[1]

    def _apart(self, f: _Index, g: _Index, length: int | None, other: int | None, domain: Domain) -> bool:
        """Whether ranges alone show that a dimension's indices never agree."""
        if f.common is None or g.common is None:
            gap = add(f.reach, scale(g.reach, -1)) if f.common is None and g.common is None else ANYTHING
        else:
            common = f.common.plus(g.common, -1)
            fixed = length == other == 1 and f.is_fixed and g.is_fixed
            if fixed and _of_other_versions(f.common, g.common, self._linear):
                return True
            gap = add(analysis_of(domain).sum_bounds(common), add(f.reach, scale(g.reach, -1)))
        above = other is not None and gap.low is not None and gap.low >= other
        below = length is not None and gap.high is not None and gap.high <= -length
        return above or below

    def _index(self, expr: Expr | None, touch: Touch) -> _Index:
        if expr is None or not expr.dtype.is_int:
            return _Index(None, None, ANYTHING)
        numbered = {f.var: f for f in touch.free}
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
        moving = to_expr(own)
        named = frozenset(n for n in walk_expr(moving) if isinstance(n, Var) and n is not self._thread)
        table = self._table(moving, touch, named)
        if table is None:
            return _Index(common, None, self._reach(own, numbered), moving, named)
        reach = Interval(int(table.min()), int(table.max())) if table.size else ANYTHING
        return _Index(common, table, reach, moving, named)

    def _reach(self, own: Sum, free: Mapping[Var, Free]) -> Interval:
        domain = Domain()
        if self._thread is not None:
            domain = domain.with_range(self._thread, 0, self._threads - 1)
        for entry in free.values():
            domain = domain.with_range(entry.var, entry.low, entry.high)
        return analysis_of(domain).sum_bounds(own)

    def _axes(self, touch: Touch, names: frozenset[Var] | None) -> list[tuple[Var, range]] | None:
        """The free variables whose values are known, or those of them that are given, unless these are too many."""
        axes, count = [], self._threads
        for entry in touch.free:
            if entry.values is not None and (names is None or entry.var in names):
                count *= len(entry.values)
                axes.append((entry.var, entry.values))
        return axes if count <= _MANY else None

    def _table(self, expr: Expr, touch: Touch, names: frozenset[Var] | None = None) -> np.ndarray | None:
        """The values of an expression of the thread index and free variables: all of them, or those given."""
        axes = self._axes(touch, names)
        if axes is None:
            return None
        shape = (self._threads, *(len(values) for _, values in axes))
        env: dict[Var, np.ndarray] = {}
        if self._thread is not None:
            env[self._thread] = _along(range(self._threads), 0, len(shape))
        for axis, (var, values) in enumerate(axes, 1):
            env[var] = _along(values, axis, len(shape))
        if any(isinstance(n, Var) and n not in env for n in walk_expr(expr)):
            return None
        table: np.ndarray = np.broadcast_to(np.asarray(evaluate(expr, env)), shape)
        return table.reshape(self._threads, math.prod(shape[1:]))

    def _mask(self, touch: Touch, names: frozenset[Var] | None = None) -> np.ndarray | None:
        """For which threads and free variables, or those given, the access may happen, as conditions plainly say.

        Conditions on other variables are left out; without variables, those that name any.
        """
        known = self._active.get((id(touch), names))
        if known is None:
            mask: np.ndarray | None = None
            for condition in touch.conditions:
                if any(isinstance(n, Load) for n in walk_expr(condition)):
                    continue
                table = self._table(condition, touch, names)
                if table is not None:
                    mask = table.astype(bool) if mask is None else mask & table.astype(bool)
            known = self._active[(id(touch), names)] = (touch, mask)
        return known[1]

    def _different_threads(self, x: Touch, y: Touch, gaps: Mapping[int, int]) -> bool:
        """Whether an element of `x` is one of `y` for a thread of another team.

        Args:
            x: The earlier access.
            y: The later one.
            gaps: The dimensions to look at, each with the distance between what threads have in common there.
        """
        mine, other = self._elements_of(x, gaps), self._elements_of(y, dict.fromkeys(gaps, 0))
        if mine is None or other is None:
            return True
        return self._common(mine, other)

    def _elements_of(self, touch: Touch, moved: Mapping[int, int]) -> _Elements | None:
        """What threads touch in some dimensions, each moved so far, under the conditions that are not too many."""
        named = frozenset(name for d in moved for name in self._touch(touch)[d].names)
        asked = {n for condition in touch.conditions for n in walk_expr(condition) if isinstance(n, Var)}
        found = self._elements_over(named | asked, touch, moved)
        return self._elements_over(named, touch, moved) if found is None else found

    def _elements_over(self, names: frozenset[Var], touch: Touch, moved: Mapping[int, int]) -> _Elements | None:
        """The same for all values of these free variables; None if they are too many."""
        indices = {d: self._touch(touch)[d] for d in moved}
        starts: list[np.ndarray] = []
        for d, index in indices.items():
            table = index.own if index.moving is None else self._table(index.moving, touch, names)
            if table is None:
                return None
            starts.append(table + moved[d])
        return _elements(starts, [touch.extent[d] or 1 for d in moved], self._mask(touch, names), self._threads)

    def _common(self, mine: _Elements, other: _Elements) -> bool:
        """Whether threads of different teams have an element in common."""
        if not len(mine.threads) or not len(other.threads):
            return False
        low = np.minimum(mine.starts.min(axis=0), other.starts.min(axis=0))
        size = np.maximum(mine.ends(), other.ends()) - low
        weights = np.concatenate([np.cumprod(size[::-1])[::-1][1:], [1]]) if len(size) else size
        places, other_places = mine.numbered(low, weights), other.numbered(low, weights)
        count = int(size.prod())
        if count > _MANY * 4:  # numbers that occur stand closer
            used, closer = np.unique(np.concatenate([places, other_places]), return_inverse=True)
            places, other_places, count = closer[: len(places)], closer[len(places) :], len(used)
        first, last = _owners(places, mine.owners() // self.team, count)
        other_first, other_last = _owners(other_places, other.owners() // self.team, count)
        alone = (first == last) & (other_first == other_last) & (first == other_first)
        return bool(((first >= 0) & (other_first >= 0) & ~alone).any())


@record(slots=True)
class _Elements:
    """What all threads touch: a box for each thread and combination of free variables.

    Attributes:
        starts: The first element of each box, of shape (boxes, dimensions).
        inside: The elements of a box, relative to its first, of shape (elements, dimensions).
        threads: The thread of each box, in ascending order.
    """

    starts: np.ndarray
    inside: np.ndarray
    threads: np.ndarray

    def ends(self) -> np.ndarray:
        """One more than the largest index per dimension."""
        largest: np.ndarray = self.starts.max(axis=0) + self.inside[-1] + 1
        return largest

    def numbered(self, low: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """All elements, box by box, as numbers."""
        numbers: np.ndarray = np.add.outer((self.starts - low) @ weights, self.inside @ weights)
        return numbers.reshape(-1)

    def owners(self) -> np.ndarray:
        """The threads of all elements, box by box."""
        return np.repeat(self.threads, len(self.inside))


def _values(linear: Sum, domain: Domain) -> tuple[int, ...] | None:
    """All values of a sum of few bounded atoms; None if they are many, or bounds are not known."""
    values, analysis = {linear.constant}, analysis_of(domain)
    for term, factor in linear.terms.items():
        bounds = analysis.term_bounds(term)
        if bounds.low is None or bounds.high is None or len(values) * (bounds.high - bounds.low + 1) > _FEW:
            return None
        values = {value + factor * step for value in values for step in range(bounds.low, bounds.high + 1)}
    return tuple(values)


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


def _elements(starts: list[np.ndarray], extents: list[int], mask: np.ndarray | None, threads: int) -> _Elements | None:
    """Every element that every thread touches; None if they are too many."""
    (width,) = np.broadcast_shapes((1,), *(s.shape[1:] for s in starts), () if mask is None else mask.shape[1:])
    box = int(np.prod(extents, dtype=np.int64)) if extents else 1
    if threads * width > _MANY:
        return None
    owner = np.broadcast_to(np.arange(threads)[:, None], (threads, width)).reshape(-1)
    keep = slice(None) if mask is None else np.broadcast_to(mask, (threads, width)).reshape(-1)
    owner = owner[keep]
    if len(owner) * box > _MANY:
        return None
    spread = [np.broadcast_to(s, (threads, width)).reshape(-1)[keep] for s in starts]
    places = np.stack(spread, axis=-1).astype(np.int64) if spread else np.zeros((len(owner), 0), np.int64)
    inside = np.indices(extents).reshape(len(extents), -1).T if extents else np.zeros((1, 0), np.int64)
    return _Elements(places, inside, owner)


def _owners(places: np.ndarray, threads: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last thread that has each of so many places, -1 where none has; `threads` ascend."""
    first, last = np.full(count, -1), np.full(count, -1)
    first[places[::-1]] = threads[::-1]  # of equal places, the last assignment stays
    last[places] = threads
    return first, last
