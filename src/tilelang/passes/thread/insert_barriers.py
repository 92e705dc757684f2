"""Inserts the barriers that keep the threads of a block from meeting on shared memory in the wrong order.

Takes a thread-level function in which accesses of different threads may meet; gives one in which between any two
accesses to one element by different threads, at least one of them a write, stands a barrier of the block, and one
after the wait where the write is asynchronous. Global memory counts as far as one block touches it, and where a thread
releases it to other blocks or acquires it from them, which it does for all of its block. Barriers stand where all
threads pass, as late as possible, and outside of a loop where that is enough; those of the user count.
Invariant: nothing but barriers is added.

What single threads do under conditions of their own is the program's business: no barrier can stand there. Where they
meet others there, at barriers of their own, these order what they share; a barrier of the block between two such
places could keep one from what it waits for.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence

from tilelang.analysis.pending import (
    Pending,
    State,
    begun,
    committed,
    groups_left,
    joined,
    keyed,
    met,
    waited,
    waited_by_some,
)
from tilelang.analysis.surroundings import Around, Surroundings
from tilelang.analysis.thread_accesses import Moments, Touch, meets_some, touches_anything, touches_of
from tilelang.analysis.thread_conflicts import Conflicts
from tilelang.analysis.uniform import Uniformity
from tilelang.arith.domain import Domain, of_function
from tilelang.arith.prove import proves
from tilelang.errors import CompilerBug, Loc
from tilelang.ir.expr import Expr, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Atomic, Break, CallStmt, Continue, For, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import sub_statements, walk
from tilelang.isa.instruction import AsyncUnit, Effect, Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.transforms.place_barriers import PlaceBarriers, of_block

_ROUNDS = 30  # over one loop, and some more for each group of copies that a wait leaves under way
_MANY_TRIALS = 16  # barriers that are tried without


@record(slots=True)
class _Inside:
    """What a statement and everything below it does: anything that matters, writes, separations of accesses."""

    matters: bool
    writes: bool
    syncs: bool

    def joined(self, other: _Inside) -> _Inside:
        """What two statements do together."""
        return _Inside(self.matters or other.matters, self.writes or other.writes, self.syncs or other.syncs)


class _Restart(Exception):
    """A barrier was placed before a loop whose body is being looked at."""


class _Missing(Exception):
    """A conflict was met while nothing may be inserted."""


class _Launch:
    """The analysis of one launch: walks it in program order with the accesses that are pending.

    Attributes:
        before: The statements before which a barrier stands.
        ends: The loop bodies at whose end one stands.
    """

    def __init__(self, launch: Launch, warp_size: int, domain: Domain, uniform: Uniformity) -> None:
        self._launch, self._warp_size, self._uniform = launch, warp_size, uniform
        self._conflicts = Conflicts(launch, uniform)
        self._around = Around(domain.with_extents(launch.block_vars, launch.grid), {}, ())
        calls = [s for s in walk(launch.body) if isinstance(s, CallStmt)]
        counted = (s for s in calls if isinstance(s.routine, Instruction) and s.routine.by_every_thread)
        self._oldest = 1 + max((left for s in counted if (left := groups_left(s)) is not None), default=0)
        matter = [s.routine for s in calls if touches_anything(s, self._conflicts.matters)[0]]
        self._async_units = {routine.async_unit for routine in matter if isinstance(routine, Instruction)}
        self.before: set[Stmt] = set()
        self.ends: set[Stmt] = set()
        self._insert = True
        self._touches: dict[Stmt, list[Touch]] = {}
        self._moments: dict[Stmt, Moments] = {}
        self._units: dict[Stmt, tuple[list[Touch], list[AsyncUnit | None]]] = {}
        self._counts: dict[Stmt, _Inside] = {}
        self._places = Surroundings()
        self._plain: set[Stmt] = set()  # loops whose iterations need nothing of each other, and separate nothing
        self._settled: set[Stmt] = set()  # loops whose own iterations have been looked at
        self._entered: list[tuple[Stmt, frozenset[int]]] = []  # loops around, with what was pending before each
        self._leaving: list[tuple[list[State], list[State]]] = []  # states at `break` and `continue`

    def run(self) -> None:
        """Finds all barriers."""
        while True:
            try:
                self._walk()
                break
            except _Restart:
                pass
        if len(self._inside_of_loops()) <= _MANY_TRIALS:
            self._share_before_branches()
            self._drop_needless()

    def _inside_of_loops(self) -> list[Stmt]:
        """The barriers that are executed again and again, in program order."""
        chosen = self.before | self.ends
        loops = [s for s in walk(self._launch.body) if isinstance(s, For | While)]
        return list(dict.fromkeys(s for loop in loops for s in walk(loop.body) if s in chosen))

    def _drop_needless(self) -> None:
        """Removes barriers without which all is well: what came later in a loop may do for what came first."""
        for stmt in self._inside_of_loops():
            before, ends = set(self.before), set(self.ends)
            self.before.discard(stmt)
            self.ends.discard(stmt)
            if not self.is_enough():
                self.before, self.ends = before, ends

    def _share_before_branches(self) -> None:
        """Moves a barrier from a branch to before it, if that saves one behind the branch."""
        for loop in (s for s in walk(self._launch.body) if isinstance(s, For | While)):
            for branch in (s for s in walk(loop.body) if isinstance(s, If)):
                inside = {s for s in walk(branch) if s is not branch and s in self.before}
                if not inside or branch in self.before:
                    continue
                before, ends = set(self.before), set(self.ends)
                for other in self._inside_of_loops():
                    self.before, self.ends = before - inside - {other} | {branch}, ends - {other}
                    if other not in inside and self.is_enough():
                        break
                else:
                    self.before, self.ends = before, ends

    def is_enough(self) -> bool:
        """Whether the barriers there are separate all conflicting accesses."""
        self._insert = False
        try:
            self._walk()
        except _Missing:
            return False
        finally:
            self._insert = True
        return True

    def teams_keep_apart(self, team: int) -> bool:
        """Whether threads of different teams, of so many neighbors each, need none of the barriers that were found."""
        found = self.before, self.ends, self._plain, self._conflicts.team
        self.before, self.ends, self._plain, self._conflicts.team = set(), set(), set(), team
        try:
            return self.is_enough()
        finally:
            self.before, self.ends, self._plain, self._conflicts.team = found

    def _walk(self) -> None:
        """Looks at the whole launch once."""
        self._settled.clear()
        self._entered.clear()
        self._leaving.clear()
        self._stmt(self._launch.body, {}, self._around)

    # -- statements ------------------------------------------------------------------------------------------
    def _stmt(self, stmt: Stmt, state: State | None, around: Around) -> State | None:
        """The state after a statement; None if what follows is not reached."""
        if state is None:
            return None
        if isinstance(stmt, Seq):
            return self._seq(stmt, state, around)
        if stmt in self.before:
            state = met(state)
        if not self._counted(stmt).matters:
            return state
        if isinstance(stmt, If | For | While) and self._uniform.diverges(stmt):
            return self._unit(stmt, state, around)
        match stmt:
            case If():
                return self._if(stmt, state, around)
            case For() | While():
                return self._loop(stmt, state, around)
            case Break() | Continue():
                if self._leaving:
                    self._leaving[-1][isinstance(stmt, Continue)].append(state)
                return None
            case CallStmt(routine=Instruction() as routine) if routine.effect:
                return self._instruction(stmt, routine, self._leaf(stmt, state, around))
        return self._leaf(stmt, state, around)

    def _seq(self, stmt: Seq, state: State | None, around: Around) -> State | None:
        for place, child in enumerate(stmt.body):
            if state is not None and child not in self.before and self._meets_others(child):
                state = self._met_before(child, stmt.body[place + 1 :], state, around)
            state = self._stmt(child, state, around)
            around = self._places.behind(child, around)
        return state

    def _meets_others(self, stmt: Stmt) -> bool:
        """Whether single threads wait inside a branch or loop for what others do."""
        if not isinstance(stmt, If | For | While) or not self._uniform.diverges(stmt):
            return False
        return any(map(meets_some, walk(stmt)))

    def _met_before(self, stmt: Stmt, following: Sequence[Stmt], state: State, around: Around) -> State:
        """The state before the first of the places where threads meet others, with the barrier that any of them needs.

        Behind it, the barrier would keep the one from what it waits for.
        """
        for later in following:
            if self._counted(later).matters:
                if not self._meets_others(later):
                    break
                state = self._barrier_for(stmt, self._unit_of(later, around)[0], state, around)
            around = self._places.behind(later, around)
        return state

    def _leaf(self, stmt: Stmt, state: State, around: Around) -> State:
        touches = self._touches.get(stmt)
        if touches is None:
            touches = self._touches[stmt] = self._touches_of(stmt, around)
        return self._pass(stmt, touches, state, around)

    def _pass(self, stmt: Stmt, touches: Iterable[Touch], state: State, around: Around) -> State:
        """The state after accesses for which a barrier may stand before `stmt`."""
        touches = list(touches)
        state = self._barrier_for(stmt, touches, state, around)
        return {**state, **keyed(p for t in touches for p in begun(t, self._oldest))}

    def _barrier_for(self, stmt: Stmt, touches: Sequence[Touch], state: State, around: Around) -> State:
        """The state behind a barrier before `stmt`, if accesses need one."""
        clashing = [
            p for p in state.values() if p.commits is None and self._clashes(p.touch, touches, around.domain)
        ]
        if clashing:
            self._place(stmt, clashing)
            state = met(state)
        return state

    def _clashes(self, earlier: Touch, touches: Iterable[Touch], domain: Domain) -> bool:
        return any(self._conflicts.conflict(earlier, touch, domain) for touch in touches)

    def _place(self, stmt: Stmt, clashing: list[Pending]) -> None:
        """Puts a barrier before a statement, or before the loop that all of the clashing accesses precede."""
        if not self._insert:
            raise _Missing
        depth = -1
        for pending in clashing:
            outermost = next((n for n, (_, old) in enumerate(self._entered) if id(pending.touch) in old), None)
            depth = len(self._entered) if outermost is None else max(depth, outermost)
        if depth == len(self._entered):
            self.before.add(stmt)
            return
        loop = self._entered[depth][0]
        if loop in self.before:  # it met there already, so the access is one of the loop's own
            self.before.add(stmt)
            return
        self.before.add(loop)
        raise _Restart

    def _instruction(self, stmt: CallStmt, routine: Instruction, state: State) -> State:
        if self._is_barrier(stmt, routine):
            return met(state)
        if Effect.WAIT in routine.effect and routine.reads_late:
            return waited_by_some(state, routine.async_unit)
        if not routine.by_every_thread:
            return state
        if Effect.COMMIT in routine.effect:
            return committed(state, self._oldest)
        if Effect.WAIT in routine.effect:
            return waited(state, groups_left(stmt) or 0)
        return state

    def _changes_state(self, stmt: CallStmt, routine: Instruction) -> bool:
        """Whether an instruction separates accesses, or makes some complete that matter."""
        waits = bool(routine.effect & (Effect.COMMIT | Effect.WAIT)) and routine.async_unit in self._async_units
        return waits or self._is_barrier(stmt, routine)

    def _is_barrier(self, stmt: CallStmt, routine: Instruction) -> bool:
        if Effect.SYNC_BLOCK in routine.effect:
            return True
        threads = self._launch.num_threads
        if Effect.SYNC_WARP not in routine.effect or threads > self._warp_size or not isinstance(stmt.args[0], Expr):
            return False
        mask, needed = int_const(stmt.args[0]), (1 << threads) - 1
        return mask is not None and mask & needed == needed

    # -- control flow ----------------------------------------------------------------------------------------
    def _unit(self, stmt: Stmt, state: State, around: Around) -> State:
        """A statement in which no barrier stands: all its accesses at once."""
        if (known := self._units.get(stmt)) is None:
            known = self._units[stmt] = self._unit_of(stmt, around)
        touches, waits = known
        for unit in waits:
            state = waited_by_some(state, unit)
        state = self._pass(stmt, touches, state, around)
        later = [t for t in touches if t.asynchronous]  # which waits inside make complete, or not
        return {**state, **keyed(Pending(t, age) for t in later for age in (None, self._oldest))}

    def _unit_of(self, stmt: Stmt, around: Around) -> tuple[list[Touch], list[AsyncUnit | None]]:
        """What such a statement touches, and what it waits for."""
        touches, inside = self._all_touches(stmt, around), list(walk(stmt))
        if any(map(meets_some, inside)):
            touches = [dataclasses.replace(touch, arranged=True) for touch in touches]
        routines = [s.routine for s in inside if isinstance(s, CallStmt) and isinstance(s.routine, Instruction)]
        return touches, [routine.async_unit for routine in routines if Effect.WAIT in routine.effect]

    def _all_touches(self, stmt: Stmt, around: Around) -> list[Touch]:
        """What a statement and everything below it touches, seen from after it."""
        touches = self._touches_of(stmt, around)
        match stmt:
            case Seq(body=body):
                for child in body:
                    touches += self._all_touches(child, around)
                    around = self._places.behind(child, around)
            case If(then_body=then_body, else_body=else_body):
                then = self._all_touches(then_body, self._places.under(stmt, around, holds=True))
                if stmt.group is not None and stmt.group.count == 1:
                    then = [dataclasses.replace(touch, alone=stmt.group) for touch in then]
                touches += then
                if else_body is not None:
                    touches += self._all_touches(else_body, self._places.under(stmt, around, holds=False))
                if self._uniform.diverges(stmt):
                    touches = [dataclasses.replace(touch, by_all=False) for touch in touches]
            case For() | While():
                moments = self._moments_of(stmt, around)
                inside = [*touches, *self._all_touches(stmt.body, self._places.inside(stmt, around))]
                touches = [moments.after(touch) for touch in inside]
        return touches

    def _if(self, stmt: If, state: State, around: Around) -> State | None:
        state = self._leaf(stmt, state, around)
        then = self._stmt(stmt.then_body, state, self._places.under(stmt, around, holds=True))
        if stmt.else_body is None:
            return joined([then, state])
        return joined([then, self._stmt(stmt.else_body, state, self._places.under(stmt, around, holds=False))])

    def _loop(self, stmt: For | While, state: State, around: Around) -> State | None:
        if isinstance(stmt, For):
            state = self._leaf(stmt, state, around)
        if stmt in self._plain:
            return self._unit(stmt, state, around)
        if stmt not in self._settled:  # first what its own iterations need of each other
            self._settled.add(stmt)
            if self._counted(stmt).writes or self._counted(stmt).syncs:
                self._iterate(stmt, {}, around)
        if self._insert and not self._separates(stmt):
            self._plain.add(stmt)
            return self._unit(stmt, state, around)
        return self._iterate(stmt, state, around)

    def _separates(self, stmt: Stmt) -> bool:
        """Whether anything inside a loop separates accesses, so that it must be walked through."""
        if self._counted(stmt).syncs:
            return True
        return any(s in self.before or s in self.ends for child in sub_statements(stmt) for s in walk(child))

    def _iterate(self, stmt: For | While, entry: State, around: Around) -> State | None:
        """Walks a loop until nothing new is pending at its head; gives the state after it."""
        moments = self._moments_of(stmt, around)
        inside = self._places.inside(stmt, around)
        # a barrier before the loop ends what is pending now, but not what a wait inside of it makes complete
        self._entered.append((stmt, frozenset(id(p.touch) for p in entry.values() if p.commits is None)))
        head: dict[tuple[int, int | None], Pending] = dict(entry)
        exits: list[State] = []
        for _ in range(_ROUNDS + 2 * self._oldest):
            self._leaving.append(([], []))
            start: State = head
            if isinstance(stmt, While):
                start = self._leaf_of_while(stmt, head, around)
            last = self._stmt(stmt.body, start, inside)
            breaks, continues = self._leaving.pop()
            if isinstance(stmt, While):  # it ends by looking at its condition once more
                exits = [*breaks, start]
            else:
                exits = [*breaks, *continues, *([] if last is None else [last])]
            again = joined([*continues, last])
            if again is not None and stmt.body in self.ends:
                again = met(again)
            size = len(head)
            for pending in () if again is None else again.values():
                moved = moments.back(pending.touch)
                if moved is not None:
                    head.update(keyed([Pending(moved, pending.commits)]))
            if len(head) == size:
                break
        else:
            raise CompilerBug("insert_barriers: the accesses of a loop do not settle")
        self._entered.pop()
        after = [keyed(Pending(moments.after(p.touch), p.commits) for p in state.values()) for state in exits]
        return joined([*after, *([] if self._surely_runs(stmt, around) else [entry])])

    def _leaf_of_while(self, stmt: While, head: State, around: Around) -> State:
        """The accesses of the condition, before each iteration; what they need stands at the end of the body."""
        touches = self._touches.get(stmt)
        if touches is None:
            touches = self._touches[stmt] = self._touches_of(stmt, around)
        entered = self._entered[-1][1]
        clashing = [p for p in head.values() if p.commits is None and self._clashes(p.touch, touches, around.domain)]
        if clashing and not self._insert:
            raise _Missing
        if any(id(p.touch) not in entered for p in clashing):
            self.ends.add(stmt.body)
            raise _Restart
        if clashing:
            self._place(stmt, clashing)
        return {**head, **keyed(Pending(t) for t in touches)}

    def _surely_runs(self, stmt: For | While, around: Around) -> bool:
        if not isinstance(stmt, For):
            return False
        return proves(stmt.start < stmt.stop if stmt.step > 0 else stmt.start > stmt.stop, around.domain)

    def _moments_of(self, stmt: For | While, around: Around) -> Moments:
        known = self._moments.get(stmt)
        if known is None:
            known = self._moments[stmt] = Moments(stmt, around.domain)
        return known

    # -- what a statement holds ------------------------------------------------------------------------------
    def _touches_of(self, stmt: Stmt, around: Around) -> list[Touch]:
        """What a statement itself touches, as far as another access may be in a conflict with it."""
        found = touches_of(stmt, around.values, around.conditions)
        return [t for t in found if t.releases or t.acquires or self._conflicts.matters(t.buffer)]

    def _counted(self, stmt: Stmt) -> _Inside:
        """What a statement and everything below it does that matters here."""
        known = self._counts.get(stmt)
        if known is None:
            touches, writes = touches_anything(stmt, self._conflicts.matters)
            changes, syncs = isinstance(stmt, Break | Continue), False
            if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction):
                changes, syncs = self._changes_state(stmt, stmt.routine), bool(stmt.routine.effect)
            ordered = isinstance(stmt, Atomic) and (stmt.releases or stmt.acquires)
            known = _Inside(touches or changes, writes or ordered, syncs)
            for child in sub_statements(stmt):
                known = known.joined(self._counted(child))
            self._counts[stmt] = known
        return known


def insert_barriers(
    launch: Launch,
    warp_size: int,
    domain: Domain = Domain(),
    uniform: Uniformity | None = None,
    barrier: Callable[[Loc], Stmt] | None = None,
    teams: Sequence[tuple[int, Callable[[Loc], Stmt]]] = (),
) -> Launch:
    """The launch with the barriers it needs.

    Args:
        launch: At thread level, with places in shared memory.
        warp_size: Threads of a warp.
        domain: What is known around it.
        uniform: What is the same in all its threads, where that is known already.
        barrier: Makes one of its barriers, for groups of threads that stand for a block.
        teams: Numbers of neighboring threads, the smallest first, and what makes barriers of so many: those are
            inserted instead if threads of different teams never meet without them.
    """
    if launch.num_threads == 1:
        return launch
    found = _Launch(launch, warp_size, domain, uniform or Uniformity(launch))
    found.run()
    if not found.before and not found.ends:
        return launch
    barrier = next((each for team, each in teams if found.teams_keep_apart(team)), barrier)
    barrier = barrier or functools.partial(of_block, launch.num_threads, warp_size)
    insert = PlaceBarriers(found.before, found.ends, barrier)
    return dataclasses.replace(launch, body=insert.visit(launch.body) or launch.body)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    domain, warp_size = of_function(func), context.target.machine.warp_size
    return with_launches(func, lambda launch: insert_barriers(launch, warp_size, domain))


PASS = Pass(
    "insert_barriers", _run, Level.THREAD, Level.THREAD,
    requires=(Property.SHARED_MEMORY_PLANNED, Property.PLACES_NAMED, Property.LOGICAL_INDICES),
    establishes=(Property.BLOCK_BARRIERS_PLACED,),
)
