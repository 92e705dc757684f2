"""Layout solver: a layout for every fragment and loop nest from the constraints of statements.

Takes constraints, gives a `Solution`. Invariant: a fragment has the layout that an instruction or the user fixed, else
one propagated from its accesses; every access that does not match is listed as a `Conflict`, for the caller to convert.
The result depends on the order of the constraints only.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import field

from tilelang.layout.constraints import AccessLayout, Alias, Constraint, FixedLayout, LayoutChoice, Reason, SharedLayout
from tilelang.layout.digits import DigitMap, NotDigitMap
from tilelang.layout.layout import Layout
from tilelang.layout.propagate import element_layout, extended_layout, layout_of_view, nest_layout
from tilelang.layout.thread_values import Fragment
from tilelang.records import record


@record(slots=True)
class Conflict:
    """An access to a fragment that its layout does not support.

    Attributes:
        constraint: The access.
        fixed_by: The reason of the layout of `constraint.var`; None if it has none.
        needed: The layout that the access needs; None if it is no digit map.
    """

    constraint: FixedLayout | AccessLayout
    fixed_by: Reason | None
    needed: Fragment | None


@record(slots=True)
class Solution:
    """The layouts and conflicts.

    Attributes:
        layouts: Layouts of fragments and loop nests.
        reasons: Their reasons.
        shared: Layouts of shared buffers: the required one, else the first requested.
        shared_reasons: Their reasons.
        unmet: Required shared layouts that conflict with another one, with that one.
        conflicts: Accesses to convert, in the order of the constraints.
        unrepresentable: Fragments with a view whose layout is no digit map.
    """

    layouts: dict[Hashable, Fragment] = field(default_factory=dict)
    reasons: dict[Hashable, Reason] = field(default_factory=dict)
    shared: dict[Hashable, Layout] = field(default_factory=dict)
    shared_reasons: dict[Hashable, Reason] = field(default_factory=dict)
    unmet: tuple[tuple[SharedLayout, SharedLayout], ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    unrepresentable: frozenset[Hashable] = frozenset()


def solve(constraints: Sequence[Constraint]) -> Solution:
    """A layout for every variable that the constraints reach.

    Fixed layouts are propagated first, those without another that will do as well before all; then the choice of
    largest weight is made and propagated, and so on.
    """
    solver = _Solver(constraints)
    for flexible in (False, True):
        solver.fix(flexible=flexible)
        solver.propagate()
    solver.choose()
    return solver.solution()


class _Solver:
    def __init__(self, constraints: Sequence[Constraint]) -> None:
        self._fixed = [c for c in constraints if isinstance(c, FixedLayout)]
        self._uses = [c for c in constraints if isinstance(c, AccessLayout)]
        self._choices = [c for c in constraints if isinstance(c, LayoutChoice)]
        self._shared = [c for c in constraints if isinstance(c, SharedLayout)]
        self._of_var: dict[Hashable, list[AccessLayout]] = {}
        self._of_loop: dict[Hashable, list[AccessLayout]] = {}
        for use in self._uses:
            self._of_var.setdefault(use.var, []).append(use)
            self._of_loop.setdefault(use.loop, []).append(use)
        self._views: dict[Hashable, list[tuple[Hashable, DigitMap]]] = {}  # the views of each fragment
        self._storage: dict[Hashable, Hashable] = {}
        for constraint in constraints:
            if isinstance(constraint, Alias):
                self._views.setdefault(constraint.storage, []).append((constraint.var, constraint.names))
                self._views.setdefault(constraint.var, []).append((constraint.storage, constraint.back))
                self._storage[constraint.var] = constraint.storage
        self._unrepresentable: set[Hashable] = set()
        self._layouts: dict[Hashable, Fragment] = {}
        self._reasons: dict[Hashable, Reason] = {}
        self._worklist: list[Hashable] = []  # worklist: variables whose layout is not propagated yet
        self._needed: dict[int, tuple[Fragment, Fragment | None]] = {}

    # -- steps ----------------------------------------------------------------------------------------------
    def fix(self, *, flexible: bool) -> None:
        """Assigns the fixed layouts, the first of several: those with, or without, another that will do as well."""
        for constraint in self._fixed:
            layout, other = self._layouts.get(constraint.var), constraint.other
            if layout is not None and other is not None and flexible and layout.same_owners(other):
                self._layouts[constraint.var] = other  # with its order of values
            elif layout is None and (other is not None) is flexible:
                self._put(constraint.var, constraint.layout, constraint.reason)

    def propagate(self) -> None:
        """Propagates layouts to a fixed point, to fragments before loop nests."""
        candidate_loops: dict[Hashable, None] = {}  # loop nests that may get the layout of a fragment
        while self._worklist or candidate_loops:
            while self._worklist:
                variable = self._worklist.pop(0)
                for use in self._of_loop.get(variable, ()):
                    self._propagate_to_var(use)
                for use in self._of_var.get(variable, ()):
                    candidate_loops[use.loop] = None
            while candidate_loops and not self._worklist:
                loop = next(iter(candidate_loops))
                del candidate_loops[loop]
                if loop not in self._layouts:
                    self._propagate_to_loop(loop)

    def choose(self) -> None:
        """Makes the open choices, largest weight first, each with the fewest conflicts."""
        for choice in sorted(self._choices, key=lambda c: -c.weight):
            if choice.var in self._layouts:
                continue
            candidates = [*choice.candidates, *self._extended(choice)]
            if candidates:
                best = min(candidates, key=lambda layout: self._conversion_cost(choice.var, layout))
                self._put(choice.var, best, choice.reason)
                self.propagate()

    def solution(self) -> Solution:
        """The solution, with every access checked."""
        conflicts = [
            Conflict(constraint, self._reasons[constraint.var], constraint.layout)
            for constraint in self._fixed
            if not _meets(constraint, self._layouts[constraint.var])
        ]
        conflicts += [
            Conflict(use, self._reasons.get(use.var), self._need(use)) for use in self._uses if not self._suits(use)
        ]
        shared: dict[Hashable, SharedLayout] = {}
        for request in sorted(self._shared, key=lambda request: not request.required):
            shared.setdefault(request.var, request)
        unmet = tuple(
            (request, shared[request.var])
            for request in self._shared
            if request.required and request.layout != shared[request.var].layout
        )
        return Solution(
            self._layouts,
            self._reasons,
            {var: request.layout for var, request in shared.items()},
            {var: request.reason for var, request in shared.items()},
            unmet,
            tuple(conflicts),
            frozenset(self._unrepresentable),
        )

    # -- propagation ----------------------------------------------------------------------------------------
    def _put(self, var: Hashable, layout: Fragment, reason: Reason) -> None:
        self._layouts[var] = layout
        self._reasons[var] = reason
        self._worklist.append(var)
        for name, access in self._views.get(var, ()):
            if name not in self._layouts:
                try:
                    self._put(name, layout_of_view(access, layout), reason)
                except NotDigitMap:
                    self._unrepresentable.add(self._storage.get(var, var))

    def _propagate_to_var(self, use: AccessLayout) -> None:
        if use.var not in self._layouts:
            layout = self._need(use)
            if layout is not None:
                self._put(use.var, layout, self._reasons[use.loop])

    def _propagate_to_loop(self, loop: Hashable) -> None:
        """Propagates from fragments to a nest: from those it writes before those it reads, then the larger."""
        uses = [use for use in self._of_loop[loop] if use.var in self._layouts]
        uses.sort(key=lambda use: (not use.writes, -_size(self._layouts[use.var])))
        found: list[tuple[int, Fragment, Reason]] = []
        for use in uses:
            try:
                layout = nest_layout(use.access, self._layouts[use.var], use.free)
            except NotDigitMap:
                continue
            cost = self._conversion_cost(loop, layout)
            found.append((cost, layout, self._reasons[use.var]))
            if not cost:
                break
        if found:
            _, layout, reason = min(found, key=lambda entry: entry[0])
            self._put(loop, layout, reason)

    def _extended(self, choice: LayoutChoice) -> list[Fragment]:
        """Layouts of an open nest in which fragments that are invariant in some of its dimensions keep their layout."""
        lifted = []
        for use in self._of_loop.get(choice.var, ()):
            if use.var in self._layouts:
                try:
                    lifted.append(extended_layout(use.access, self._layouts[use.var], choice.vector, use.free))
                except NotDigitMap:
                    continue
        return lifted

    # -- checking -------------------------------------------------------------------------------------------
    def _need(self, use: AccessLayout) -> Fragment | None:
        """The layout that an access needs of its fragment; None if its nest has no layout, or it is no digit map."""
        nest = self._layouts.get(use.loop)
        if nest is None:
            return None
        cached = self._needed.get(id(use))
        if cached is None or cached[0] is not nest:
            cached = self._needed[id(use)] = (nest, _element_layout(use, nest))
        return cached[1]

    def _suits(self, use: AccessLayout) -> bool:
        layout, needed = self._layouts.get(use.var), self._need(use)
        return layout is not None and needed is not None and _suits(use, layout, needed)

    def _conversion_cost(self, loop: Hashable, nest: Fragment, *, named: bool = True) -> int:
        """Return the cost of conversions if a variable had this layout, with its views."""
        total = 0
        for name, access in self._views.get(loop, ()) if named else ():
            try:
                total += self._conversion_cost(name, layout_of_view(access, nest), named=False)
            except NotDigitMap:
                total += _size(nest)
        for use in self._of_loop.get(loop, ()):
            layout = self._layouts.get(use.var)
            if layout is not None:
                needed = _element_layout(use, nest)
                if needed is None or not _suits(use, layout, needed):
                    total += _size(layout) * use.item_bytes
        for use in self._of_var.get(loop, ()):
            around = self._need(use)
            if around is not None and not _suits(use, nest, around):
                total += _size(nest) * use.item_bytes
        return total


def _element_layout(use: AccessLayout, nest: Fragment) -> Fragment | None:
    try:
        return element_layout(use.access, nest, use.free)
    except NotDigitMap:
        return None


def _meets(constraint: FixedLayout, layout: Fragment) -> bool:
    wanted = (constraint.layout, constraint.other)
    return any(each is not None and layout.same_owners(each) for each in wanted)


def _suits(use: AccessLayout, layout: Fragment, needed: Fragment) -> bool:
    return layout.same_owners(needed) if use.writes else layout.holds(needed)


def _size(layout: Fragment) -> int:
    return math.prod(layout.shape)
