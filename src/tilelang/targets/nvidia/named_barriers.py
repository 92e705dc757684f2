"""Assigns named barriers to groups of threads of a launch, from the numbers that the program does not use.

Takes a launch, gives the barriers of its groups. Invariant: groups with the same threads share one, others do not.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.dtypes import INT32
from tilelang.errors import Loc, NoLowering
from tilelang.ir.expr import Expr, const, select
from tilelang.ir.stmt import CallStmt, Group, Launch, Stmt
from tilelang.ir.visit import walk
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC, BAR_SYNC_OR, BARRIERS
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS

_NAMED = (BAR_SYNC, BAR_ARRIVE, BAR_SYNC_OR)
_LOWEST = 8  # numbers below are the program's own, whichever it computes


class NamedBarriers:
    """The numbers of named barriers, one for each set of threads."""

    def __init__(self, launch: Launch) -> None:
        calls = [s for s in walk(launch.body) if isinstance(s, CallStmt) and s.routine in _NAMED]
        domain = Domain() if launch.thread is None else Domain().with_extents((launch.thread,), (launch.num_threads,))
        used = [bounds(call.args[0], domain) for call in calls if isinstance(call.args[0], Expr)]
        known = [(low, high) for low, high in used if low is not None and high is not None and high < BARRIERS]
        taken = {number for low, high in known for number in range(low, high + 1)}
        self._free = [number for number in range(_LOWEST, BARRIERS) if number not in taken]
        self._given: dict[tuple[int, int], int] = {}

    def barrier(self, group: Group, loc: Loc) -> Stmt:
        """A barrier of the threads of a group."""
        number = const(self._number(group.first, group.count, loc), INT32)
        return CallStmt(BAR_SYNC, (number, const(group.count, INT32)), loc=loc)

    def vote(self, group: Group, call: CallStmt) -> Stmt:
        """A barrier of the threads of a group that tells whether a predicate holds in any of them."""
        number = const(self._number(group.first, group.count, call.loc), INT32)
        return dataclasses.replace(call, routine=BAR_SYNC_OR, args=(number, const(group.count, INT32), *call.args))

    def subgroups(self, group: Group, thread: Expr) -> list[tuple[int, Callable[[Loc], Stmt]]]:
        """The warpgroups of a group, if there are numbers for all of them."""
        count = group.count // WARPGROUP_THREADS
        if count > 1 and group.count % WARPGROUP_THREADS == 0 and len(self._free) > count:  # one for the whole group
            return [(WARPGROUP_THREADS, functools.partial(self._subgroup_barrier, group, WARPGROUP_THREADS, thread))]
        return []

    def _subgroup_barrier(self, group: Group, size: int, thread: Expr, loc: Loc) -> Stmt:
        """A barrier of the executing thread's subgroup of `size` neighboring threads of the group."""
        numbers = [self._number(group.first + at, size, loc) for at in range(0, group.count, size)]
        number: Expr = const(numbers[-1], INT32)
        for count, other in reversed(list(enumerate(numbers[:-1], 1))):
            number = select(thread < count * size, const(other, INT32), number)
        return CallStmt(BAR_SYNC, (number, const(size, INT32)), loc=loc)

    def _number(self, first: int, count: int, loc: Loc) -> int:
        threads = (first, count)
        if threads not in self._given:
            if not self._free:
                raise NoLowering(
                    f"T.ws: the block has only {BARRIERS} named barriers, and none is free for this group",
                    loc=loc,
                    hint="use fewer different groups, and numbers below 8 for T.sync_threads",
                )
            self._given[threads] = self._free.pop()
        return self._given[threads]
