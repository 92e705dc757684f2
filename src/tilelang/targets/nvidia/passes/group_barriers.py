"""Inserts the barriers that groups of threads need among themselves, which are named ones: others do not come there.

Takes a thread-level function in which barriers of the block stand where they are needed; treats what each group does
together as the program of a block of these threads, and groups in it likewise. Where the warpgroups of a group, or its
warps, never meet on shared memory, each waits for its own threads only, so that one may compute while another stores.
Invariant: nothing but barriers of groups is added, with numbers that the program does not use; groups with the same
threads share one, others do not.
"""

from __future__ import annotations

import dataclasses
import functools

from tilelang.analysis.thread_accesses import hands_over
from tilelang.analysis.uniform import Uniformity
from tilelang.arith.domain import Domain, of_function
from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug, Loc, NoLowering
from tilelang.ir.expr import Expr, const, int_const, select
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Bind, CallStmt, For, Group, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import Rewriter, any_expr, walk
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.thread.insert_barriers import insert_barriers
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC, BARRIERS
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS
from tilelang.transforms.place_barriers import of_block

_LOWEST = 8  # numbers below are the program's own, whichever it computes


class _Numbers:
    """The numbers of named barriers, one for each set of threads."""

    def __init__(self, launch: Launch) -> None:
        calls = [s for s in walk(launch.body) if isinstance(s, CallStmt) and s.routine in (BAR_SYNC, BAR_ARRIVE)]
        taken = {int_const(call.args[0]) for call in calls if isinstance(call.args[0], Expr)}
        self._free = [number for number in range(_LOWEST, BARRIERS) if number not in taken]
        self._given: dict[tuple[int, int], int] = {}

    def barrier(self, group: Group, loc: Loc) -> Stmt:
        """A barrier of the threads of a group."""
        if group.count <= WARP_SIZE:
            return of_block(group.count, WARP_SIZE, loc)
        number = const(self._number(group.first, group.count, loc), INT32)
        return CallStmt(BAR_SYNC, (number, const(group.count, INT32)), loc=loc)

    def of_teams(self, group: Group, team: int, thread: Expr, loc: Loc) -> Stmt:
        """A barrier of the executing thread's team, which are so many neighbors of the group."""
        numbers = [self._number(group.first + at, team, loc) for at in range(0, group.count, team)]
        number: Expr = const(numbers[-1], INT32)
        for place, other in reversed(list(enumerate(numbers[:-1], 1))):
            number = select(thread < place * team, const(other, INT32), number)
        return CallStmt(BAR_SYNC, (number, const(team, INT32)), loc=loc)

    def has_room(self, count: int) -> bool:
        """Whether so many sets of threads can still have barriers."""
        return len(self._free) >= count

    def _number(self, first: int, count: int, loc: Loc) -> int:
        threads = (first, count)
        if threads not in self._given:
            if not self._free:
                raise NoLowering(
                    f"T.ws: no barrier of the block is left for this group; there are {BARRIERS}",
                    loc=loc,
                    hint="use fewer different groups, and numbers below 8 for T.sync_threads",
                )
            self._given[threads] = self._free.pop()
        return self._given[threads]


class _Groups(Rewriter):
    """The groups that stand in a launch, or in what a group does as if it were one."""

    def __init__(
        self, launch: Launch, threads: Group, domain: Domain, uniform: Uniformity, numbers: _Numbers
    ) -> None:
        self._launch, self._threads, self._domain = launch, threads, domain
        self._uniform, self._numbers = uniform, numbers
        self._loops = 0  # around the current statement
        self._busy: list[Group] = []  # those up to here that the program itself orders among each other

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, If) and node.group is not None:
            return self._group(node, node.group)
        if self._uniform.diverges(node) and any(hands_over(s) for s in walk(node)):
            self._busy.append(self._threads)
        self._loops += isinstance(node, For | While)
        made = self.rebuild_stmt(node)
        self._loops -= isinstance(node, For | While)
        return made

    def _group(self, node: If, group: Group) -> Stmt:
        first, *rest = node.then_body.body if isinstance(node.then_body, Seq) else (node.then_body,)
        body = Seq(tuple(rest), loc=node.then_body.loc)
        if not isinstance(first, Bind):
            raise CompilerBug("group_barriers: a group must say first which of its threads is executing")
        inside = dataclasses.replace(self._launch, body=body, threads=(group.count, 1, 1), thread=first.var)
        barrier = functools.partial(self._numbers.barrier, group)
        before: list[Stmt] = []
        if any(hands_over(s) for s in walk(body)):
            # where the program orders groups itself, no barrier of the block does it for what these threads did before
            if group.count > 1 and (self._loops or any(group.meets(other) for other in self._busy)):
                before = [barrier(node.loc)]
            self._busy.append(group)
        if group.count > 1:
            thread = self._launch.thread
            if any(any_expr(s, lambda e: e is thread) for s in rest):
                raise CompilerBug("group_barriers: a group must name its threads by their place in it")
            teams = []
            if group.count > WARP_SIZE and group.count % WARP_SIZE == group.first % WARP_SIZE == 0:
                teams.append((WARP_SIZE, functools.partial(of_block, WARP_SIZE, WARP_SIZE)))
            count = group.count // WARPGROUP_THREADS
            if count > 1 and group.count % WARPGROUP_THREADS == 0 and self._numbers.has_room(count):
                each = functools.partial(self._numbers.of_teams, group, WARPGROUP_THREADS, first.var)
                teams.append((WARPGROUP_THREADS, each))
            inside = insert_barriers(inside, WARP_SIZE, self._domain, self._uniform, barrier, teams)
        made = _Groups(inside, group, self._domain, self._uniform, self._numbers).visit(inside.body) or body
        return dataclasses.replace(node, then_body=Seq((first, *before, made), loc=node.then_body.loc))


def _grouped(launch: Launch, domain: Domain) -> Launch:
    if not any(isinstance(s, If) and s.group for s in walk(launch.body)):
        return launch
    groups = _Groups(launch, Group(0, launch.num_threads), domain, Uniformity(launch), _Numbers(launch))
    return dataclasses.replace(launch, body=groups.visit(launch.body) or launch.body)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    domain = of_function(func)
    return with_launches(func, lambda launch: _grouped(launch, domain))


PASS = Pass(
    "group_barriers", _run, Level.THREAD, Level.THREAD,
    requires=(Property.BLOCK_BARRIERS_PLACED, Property.THREAD_GROUPS, Property.LOGICAL_INDICES),
    establishes=(Property.GROUP_BARRIERS_PLACED,),
)
