"""Finds a layout for every fragment and every loop nest from what statements ask for.

Takes constraints, gives a `Solution`. Invariant: a fragment has the layout that an instruction or the user fixed, else
the one that follows from its neighbors; every use that this does not suit is listed as a `Conflict`, so that the caller
can convert there. The result depends on the order of the constraints and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import field

from tilelang.layout.constraints import AccessLayout, Alias, Constraint, FixedLayout, LayoutChoice, SharedLayout, Why
from tilelang.layout.digits import DigitMap, NotDigits
from tilelang.layout.layout import Layout
from tilelang.layout.propagate import element_layout, lifted_layout, nest_layout, renamed
from tilelang.layout.thread_values import Fragment
from tilelang.records import record


@record(slots=True)
class Conflict:
    """A use of a fragment that its layout does not suit.

    Attributes:
        constraint: The use.
        fixed_by: Who fixed the layout of `constraint.var`; None where nothing could.
        needed: The layout that the use needs; None where digits do not tell it.
    """

    constraint: FixedLayout | AccessLayout
    fixed_by: Why | None
    needed: Fragment | None


@record(slots=True)
class Solution:
    """What was found.

    Attributes:
        layouts: Of fragments and loop nests.
        reasons: Who fixed each of them.
        shared: Layouts that instructions want for shared buffers: what one requires, else the first asked for.
        shared_reasons: Who asked for them.
        unmet: What an instruction requires, but another one's layout stands in the way of; with that one.
        conflicts: Uses to convert, in the order of the constraints.
        unrepresentable: Fragments whose layout digits do not tell under another of their names.
    """

    layouts: dict[Hashable, Fragment] = field(default_factory=dict)
    reasons: dict[Hashable, Why] = field(default_factory=dict)
    shared: dict[Hashable, Layout] = field(default_factory=dict)
    shared_reasons: dict[Hashable, Why] = field(default_factory=dict)
    unmet: tuple[tuple[SharedLayout, SharedLayout], ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    unrepresentable: frozenset[Hashable] = frozenset()


def solve(constraints: Sequence[Constraint]) -> Solution:
    """A layout for every variable that the constraints reach.

    Fixed layouts spread first; then the heaviest open choice is made, spreads, and so on.
    """
    solver = _Solver(constraints)
    solver.fix()
    solver.spread()
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
        self._names: dict[Hashable, list[tuple[Hashable, DigitMap]]] = {}  # the other names of each fragment
        self._storage: dict[Hashable, Hashable] = {}
        for constraint in constraints:
            if isinstance(constraint, Alias):
                self._names.setdefault(constraint.storage, []).append((constraint.var, constraint.names))
                self._names.setdefault(constraint.var, []).append((constraint.storage, constraint.back))
                self._storage[constraint.var] = constraint.storage
        self._unrepresentable: set[Hashable] = set()
        self._layouts: dict[Hashable, Fragment] = {}
        self._reasons: dict[Hashable, Why] = {}
        self._new: list[Hashable] = []  # what was given a layout and has not spread yet, in order
        self._needed: dict[int, tuple[Fragment, Fragment | None]] = {}

    # -- steps ----------------------------------------------------------------------------------------------
    def fix(self) -> None:
        """Gives variables the layouts that are fixed; the first one of several stands."""
        for constraint in self._fixed:
            if constraint.var not in self._layouts:
                self._put(constraint.var, constraint.layout, constraint.why)

    def spread(self) -> None:
        """Follows from what is known to what is not, fragments before loop nests, until nothing is left."""
        waiting: dict[Hashable, None] = {}  # loop nests that a known fragment may fix
        while self._new or waiting:
            while self._new:
                known = self._new.pop(0)
                for use in self._of_loop.get(known, ()):
                    self._spread_to_var(use)
                for use in self._of_var.get(known, ()):
                    waiting[use.loop] = None
            while waiting and not self._new:
                loop = next(iter(waiting))
                del waiting[loop]
                if loop not in self._layouts:
                    self._spread_to_loop(loop)

    def choose(self) -> None:
        """Makes the open choices, heaviest first, each with what suits its known neighbors best."""
        for choice in sorted(self._choices, key=lambda c: -c.weight):
            if choice.var in self._layouts:
                continue
            candidates = [*choice.candidates, *self._lifted(choice)]
            if candidates:
                best = min(candidates, key=lambda layout: self._clashes(choice.var, layout))
                self._put(choice.var, best, choice.why)
                self.spread()

    def solution(self) -> Solution:
        """What was found, every use checked."""
        conflicts = [
            Conflict(constraint, self._reasons[constraint.var], constraint.layout)
            for constraint in self._fixed
            if not self._layouts[constraint.var].same_owners(constraint.layout)
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
            {var: request.why for var, request in shared.items()},
            unmet,
            tuple(conflicts),
            frozenset(self._unrepresentable),
        )

    # -- spreading ------------------------------------------------------------------------------------------
    def _put(self, var: Hashable, layout: Fragment, why: Why) -> None:
        self._layouts[var] = layout
        self._reasons[var] = why
        self._new.append(var)
        for name, access in self._names.get(var, ()):
            if name not in self._layouts:
                try:
                    self._put(name, renamed(access, layout), why)
                except NotDigits:
                    self._unrepresentable.add(self._storage.get(var, var))

    def _spread_to_var(self, use: AccessLayout) -> None:
        if use.var not in self._layouts:
            layout = self._need(use)
            if layout is not None:
                self._put(use.var, layout, self._reasons[use.loop])

    def _spread_to_loop(self, loop: Hashable) -> None:
        """Lets known fragments fix a nest: what it writes before what it reads, then the larger."""
        known = [use for use in self._of_loop[loop] if use.var in self._layouts]
        known.sort(key=lambda use: (not use.writes, -_size(self._layouts[use.var])))
        found: list[tuple[int, Fragment, Why]] = []
        for use in known:
            try:
                layout = nest_layout(use.access, self._layouts[use.var], use.free)
            except NotDigits:
                continue
            cost = self._clashes(loop, layout)
            found.append((cost, layout, self._reasons[use.var]))
            if not cost:
                break
        if found:
            _, layout, why = min(found, key=lambda entry: entry[0])
            self._put(loop, layout, why)

    def _lifted(self, choice: LayoutChoice) -> list[Fragment]:
        """Layouts of an open nest in which known fragments that forget some of its dimensions stay where they are."""
        lifted = []
        for use in self._of_loop.get(choice.var, ()):
            if use.var in self._layouts:
                try:
                    lifted.append(lifted_layout(use.access, self._layouts[use.var], choice.vector, use.free))
                except NotDigits:
                    continue
        return lifted

    # -- checking -------------------------------------------------------------------------------------------
    def _need(self, use: AccessLayout) -> Fragment | None:
        """The layout that a use needs of its fragment; None if its nest has no layout, or digits do not tell it."""
        nest = self._layouts.get(use.loop)
        if nest is None:
            return None
        known = self._needed.get(id(use))
        if known is None or known[0] is not nest:
            known = self._needed[id(use)] = (nest, _element_layout(use, nest))
        return known[1]

    def _suits(self, use: AccessLayout) -> bool:
        layout, needed = self._layouts.get(use.var), self._need(use)
        return layout is not None and needed is not None and _suits(use, layout, needed)

    def _clashes(self, loop: Hashable, nest: Fragment, *, named: bool = True) -> int:
        """Elements that would have to be converted if a variable had this layout, other names of it included."""
        total = 0
        for name, access in self._names.get(loop, ()) if named else ():
            try:
                total += self._clashes(name, renamed(access, nest), named=False)
            except NotDigits:
                total += _size(nest)
        for use in self._of_loop.get(loop, ()):
            layout = self._layouts.get(use.var)
            if layout is not None:
                needed = _element_layout(use, nest)
                if needed is None or not _suits(use, layout, needed):
                    total += _size(layout)
        for use in self._of_var.get(loop, ()):
            around = self._need(use)
            if around is not None and not _suits(use, nest, around):
                total += _size(nest)
        return total


def _element_layout(use: AccessLayout, nest: Fragment) -> Fragment | None:
    try:
        return element_layout(use.access, nest, use.free)
    except NotDigits:
        return None


def _suits(use: AccessLayout, layout: Fragment, needed: Fragment) -> bool:
    return layout.same_owners(needed) if use.writes else layout.holds(needed)


def _size(layout: Fragment) -> int:
    return math.prod(layout.shape)
