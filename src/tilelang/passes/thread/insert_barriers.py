"""Inserts the barriers that order conflicting accesses of the threads of a block.

Requires shared memory with offsets (tiles may share bytes), and subscripts by the dimensions of tiles, with mutable
scalars hoisted out of loops (these distinguish elements). Gives a function in which a barrier of the block lies
between any two accesses to one element by different threads of which at least one is a write, other than atomic
updates that commute; where the earlier one is asynchronous, between the wait for it and the other access. Global memory
is covered within one block; a release to other blocks, or an acquire from them, by one thread counts for all threads of
its block. Barriers are placed in uniform control flow, as late as possible, and outside of a loop where that suffices;
the user's own barriers count. Invariant: only barriers are added.

Accesses in divergent code are not separated from each other, since no barrier may be executed there. Where threads
synchronize in divergent code, by named or transaction barriers, those order their accesses; a barrier of the block
between two such program points could deadlock, as it would where warps execute statements in turn.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from itertools import takewhile

from tilelang.analysis.context_facts import ContextFacts
from tilelang.analysis.launch_accesses import LaunchAccesses
from tilelang.analysis.pending_accesses import (
    Pending,
    State,
    after_barrier,
    committed,
    committed_by_all,
    groups_pending,
    issued,
    issued_by_some,
    keyed,
    merged,
    waited,
    waited_by_all,
    waited_by_some,
)
from tilelang.analysis.thread_accesses import ThreadAccess, arrives_for_warps, syncs_some_threads, syncs_warps
from tilelang.analysis.thread_conflicts import Conflicts
from tilelang.analysis.uniformity import Uniformity, uniformity
from tilelang.arith.domain import Domain, of_function
from tilelang.errors import CompilerBug, Loc
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Break, CallStmt, Continue, For, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import own_jumps, sub_statements, walk
from tilelang.isa.instruction import Effect, Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.transforms.place_barriers import PlaceBarriers, block_barrier

_ROUNDS = 30  # of the fixed point over one loop; some more for each group that a wait leaves in flight
_MANY_TRIALS = 16  # with more barriers, removal of redundant ones is not tried


class _Restart(Exception):
    """A barrier was placed before a loop whose body is being analyzed: the analysis starts again."""


class _BarrierMissing(Exception):
    """A conflict was found while nothing may be inserted."""


class _BarrierAnalysis:
    """The forward data-flow analysis of one launch, with pending accesses as its state.

    Attributes:
        before: The statements before which a barrier is inserted.
        ends: The loop bodies at whose end one is inserted.
    """

    def __init__(self, launch: Launch, warp_size: int, domain: Domain, uniform: Uniformity) -> None:
        self._launch, self._uniform = launch, uniform
        self._conflicts = Conflicts(launch, uniform)
        self._accesses = LaunchAccesses(launch, warp_size, uniform, self._conflicts.may_conflict)
        self._entry_facts = ContextFacts(domain.with_extents(launch.block_vars, launch.grid), {}, ())
        calls = [s for s in walk(launch.body) if isinstance(s, CallStmt)]
        counted = (s for s in calls if isinstance(s.routine, Instruction) and s.routine.is_per_thread)
        self._oldest = 1 + max((left for s in counted if (left := groups_pending(s)) is not None), default=0)
        self.before: set[Stmt] = set()
        self.ends: set[Stmt] = set()
        self._insert = True
        self._facts = self._accesses.facts
        self._independent: set[Stmt] = set()  # loops without conflicts between iterations and without synchronization
        self._visited: set[Stmt] = set()  # loops whose iterations have been analyzed against each other
        self._entered: list[tuple[Stmt, frozenset[int]]] = []  # enclosing loops, with the accesses pending before each
        self._exit_states: list[tuple[list[State], list[State]]] = []  # states at `break` and `continue`
        self._inside: dict[Stmt, frozenset[Stmt]] = {}  # the statements of loops
        # the states after and before loops, by all that the former depend on
        self._exits: dict[tuple[object, ...], tuple[State | None, State]] = {}
        self._steps_of: dict[Seq, list[tuple[Stmt, Sequence[Stmt], ContextFacts]]] = {}  # by sequence, for all walks

    def run(self) -> None:
        """Finds all barriers."""
        while True:
            try:
                self._walk()
                break
            except _Restart:
                pass
        if self.before | self.ends and len(self._barriers_in_loops()) <= _MANY_TRIALS:
            self._hoist_from_branches()
            self._remove_redundant()

    def _barriers_in_loops(self) -> list[Stmt]:
        """The barriers inside of loops, in program order."""
        chosen = self.before | self.ends
        loops = [s for s in walk(self._launch.body) if isinstance(s, For | While)]
        return list(dict.fromkeys(s for loop in loops for s in walk(loop.body) if s in chosen))

    def _remove_redundant(self) -> None:
        """Removes redundant barriers: one placed later in a loop may also separate the earlier conflict."""
        for stmt in self._barriers_in_loops():
            before, ends = set(self.before), set(self.ends)
            self.before.discard(stmt)
            self.ends.discard(stmt)
            if not self.is_sufficient():
                self.before, self.ends = before, ends

    def _hoist_from_branches(self) -> None:
        """Moves a barrier from inside a branch to before it, if that makes one after the branch redundant."""
        for loop in (s for s in walk(self._launch.body) if isinstance(s, For | While)):
            for branch in (s for s in walk(loop.body) if isinstance(s, If)):
                inside = {s for s in walk(branch) if s is not branch and s in self.before}
                if not inside or branch in self.before:
                    continue
                before, ends = set(self.before), set(self.ends)
                for other in self._barriers_in_loops():
                    self.before, self.ends = before - inside - {other} | {branch}, ends - {other}
                    if other not in inside and self.is_sufficient():
                        break
                else:
                    self.before, self.ends = before, ends

    def is_sufficient(self) -> bool:
        """Whether the barriers found so far separate all conflicting accesses."""
        self._insert = False
        try:
            self._walk()
        except _BarrierMissing:
            return False
        finally:
            self._insert = True
        return True

    def within_subgroups(self, size: int) -> set[Stmt]:
        """The places of barriers that only separate threads of the same subgroup of `size` threads."""
        in_loops = self._barriers_in_loops()
        saved = before, ends, _ = self.before, self.ends, self._conflicts.subgroup_size
        self._conflicts.subgroup_size = size

        def is_sufficient_without(places: set[Stmt]) -> bool:
            self.before, self.ends = before - places, ends - places
            return self.is_sufficient()

        try:
            within = before | ends if is_sufficient_without(before | ends) else set()
            for place in in_loops if not within and len(in_loops) <= _MANY_TRIALS else ():
                if is_sufficient_without(within | {place}):
                    within.add(place)
            return within
        finally:
            self.before, self.ends, self._conflicts.subgroup_size = saved

    def _walk(self) -> None:
        """Analyzes the whole launch once."""
        self._visited.clear()
        self._entered.clear()
        self._exit_states.clear()
        self._stmt(self._launch.body, {}, self._entry_facts)

    # -- statements ------------------------------------------------------------------------------------------
    def _stmt(self, stmt: Stmt, state: State | None, facts: ContextFacts) -> State | None:
        """The state after a statement; None if the point after it is unreachable."""
        if state is None:
            return None
        if isinstance(stmt, Seq):
            return self._seq(stmt, state, facts)
        if stmt in self.before:
            state = after_barrier(state)
        if not self._accesses.summary(stmt).relevant:
            return state
        if isinstance(stmt, If | For | While) and self._uniform.diverges(stmt):
            return self._diverged(stmt, state, facts)
        match stmt:
            case If():
                return self._if(stmt, state, facts)
            case For() | While():
                return self._loop(stmt, state, facts)
            case Break() | Continue():
                if self._exit_states:
                    self._exit_states[-1][isinstance(stmt, Continue)].append(state)
                return None
            case CallStmt(routine=Instruction() as routine) if routine.effect:
                return self._instruction(stmt, routine, self._leaf(stmt, state, facts))
        return self._leaf(stmt, state, facts)

    def _seq(self, stmt: Seq, state: State | None, facts: ContextFacts) -> State | None:
        for child, following, known in self._steps(stmt, facts):
            if state is not None and following and child not in self.before:
                state = self._barrier_before(child, following, state, known)
            state = self._stmt(child, state, known)
        return state

    def _steps(self, stmt: Seq, facts: ContextFacts) -> list[tuple[Stmt, Sequence[Stmt], ContextFacts]]:
        """The statements of a sequence that may need a barrier, each with what `_unbroken` finds and with its facts."""
        steps = self._steps_of.get(stmt)
        if steps is None:
            steps = self._steps_of[stmt] = []
            for position, child in enumerate(stmt.body):
                following = self._unbroken(child, stmt.body[position + 1 :])
                if following or self._accesses.summary(child).relevant:
                    steps.append((child, following, facts))
                facts = self._facts.after(child, facts)
        return steps

    def _syncs_inside(self, stmt: Stmt) -> bool:
        """Whether a divergent branch or loop contains synchronization of some threads."""
        if not isinstance(stmt, If | For | While) or not self._uniform.diverges(stmt):
            return False
        return any(map(syncs_some_threads, walk(stmt)))

    def _unbroken(self, stmt: Stmt, following: Sequence[Stmt]) -> Sequence[Stmt]:
        """The following statements from which no barrier may separate a statement, since it could deadlock.

        With divergent synchronization they are more of its kind, with a wait for other warps those up to an arrival.
        """
        if self._syncs_inside(stmt):
            return [*takewhile(lambda s: not self._accesses.summary(s).relevant or self._syncs_inside(s), following)]
        if not syncs_warps(stmt):
            return ()
        return following[: next((n for n, later in enumerate(following) if arrives_for_warps(later)), 0)]

    def _barrier_before(self, stmt: Stmt, following: Sequence[Stmt], state: State, facts: ContextFacts) -> State:
        """The state before a statement, after a barrier if one of those that follow needs one."""
        facts = self._facts.after(stmt, facts)
        for later in following:
            if self._accesses.summary(later).relevant:
                state = self._barrier_for(stmt, self._accesses.inside(later, facts)[0], state, facts)
            facts = self._facts.after(later, facts)
        return state

    def _leaf(self, stmt: Stmt, state: State, facts: ContextFacts) -> State:
        return self._after_accesses(stmt, self._accesses.own(stmt, facts), state, facts)

    def _after_accesses(self, stmt: Stmt, accesses: Sequence[ThreadAccess], state: State, facts: ContextFacts) -> State:
        """The state after accesses of `stmt`, with a barrier before it if needed."""
        state = self._barrier_for(stmt, accesses, state, facts)
        return {**state, **keyed(p for t in accesses for p in issued(t))}

    def _barrier_for(self, stmt: Stmt, accesses: Sequence[ThreadAccess], state: State, facts: ContextFacts) -> State:
        """The state before accesses, after a barrier before `stmt` if they need one."""
        conflicting = self._conflicting(state, accesses, facts.domain)
        if conflicting:
            self._place_barrier(stmt, conflicting)
            state = after_barrier(state)
        return state

    def _conflicting(self, state: State, accesses: Sequence[ThreadAccess], domain: Domain) -> list[Pending]:
        """The pending accesses that conflict with later ones, except for asynchronous ones in flight."""
        candidates, conflicting = [p for p in state.values() if p.commits is None], set[int]()
        for later in accesses:
            others = [p.access for p in candidates if id(p.access) not in conflicting]
            conflicting.update(map(id, self._conflicts.conflicting(others, later, domain)))
        return [p for p in candidates if id(p.access) in conflicting] if conflicting else []

    def _place_barrier(self, stmt: Stmt, conflicting: list[Pending]) -> None:
        """Inserts a barrier before a statement, or before the outermost loop that all conflicting accesses precede."""
        if not self._insert:
            raise _BarrierMissing
        depth = -1
        for pending in conflicting:
            outermost = next((n for n, (_, old) in enumerate(self._entered) if id(pending.access) in old), None)
            depth = len(self._entered) if outermost is None else max(depth, outermost)
        if depth == len(self._entered):
            self.before.add(stmt)
            return
        loop = self._entered[depth][0]
        if loop in self.before:  # there is one already, so the access is one of the loop's own
            self.before.add(stmt)
            return
        self.before.add(loop)
        raise _Restart

    def _instruction(self, stmt: CallStmt, routine: Instruction, state: State) -> State:
        if self._accesses.syncs_block(stmt):
            return after_barrier(state)
        if Effect.WAIT in routine.effect and routine.reads_asynchronously:
            wait = waited_by_all if groups_pending(stmt) == 0 else waited_by_some
            return wait(state, routine.async_unit)
        if Effect.COMMIT in routine.effect and routine.reads_asynchronously:
            return committed_by_all(state, self._oldest, routine.async_unit)
        if not routine.is_per_thread:
            return state
        if Effect.COMMIT in routine.effect:
            return committed(state, self._oldest)
        if Effect.WAIT in routine.effect:
            return waited(state, groups_pending(stmt) or 0)
        return state

    # -- control flow ----------------------------------------------------------------------------------------
    def _diverged(self, stmt: Stmt, state: State, facts: ContextFacts) -> State:
        """The state after a statement into which no barrier may be inserted: all its accesses at once."""
        accesses, waits = self._accesses.inside(stmt, facts)
        for unit in waits:
            state = waited_by_some(state, unit)
        state = self._after_accesses(stmt, accesses, state, facts)
        later = [t for t in accesses if t.asynchronous]  # which may be completed by waits inside
        return {**state, **keyed(p for t in later for p in issued_by_some(t, self._oldest))}

    def _if(self, stmt: If, state: State, facts: ContextFacts) -> State | None:
        state = self._leaf(stmt, state, facts)
        then = self._stmt(stmt.then_body, state, self._facts.in_branch(stmt, facts, holds=True))
        if stmt.else_body is None:
            return merged([then, state])
        return merged([then, self._stmt(stmt.else_body, state, self._facts.in_branch(stmt, facts, holds=False))])

    def _loop(self, stmt: For | While, state: State, facts: ContextFacts) -> State | None:
        if isinstance(stmt, For):
            state = self._leaf(stmt, state, facts)
        if stmt in self._independent:
            return self._diverged(stmt, state, facts)
        if not self._insert:  # a conflict between its own iterations is found with any state before it
            return self._retraced(stmt, state, facts)
        if stmt not in self._visited:  # conflicts between its own iterations first
            self._visited.add(stmt)
            if self._accesses.summary(stmt).writes or self._accesses.summary(stmt).syncs:
                self._iterate(stmt, {}, facts)
        if not self._separates(stmt):
            self._independent.add(stmt)
            return self._diverged(stmt, state, facts)
        return self._iterate(stmt, state, facts)

    def _retraced(self, stmt: For | While, entry: State, facts: ContextFacts) -> State | None:
        """The state after a loop while nothing may be inserted; trials that differ elsewhere find it once."""
        if stmt not in self._inside:
            self._inside[stmt] = frozenset(walk(stmt))
        inside = self._inside[stmt]
        barriers = frozenset(self.before & inside), frozenset(self.ends & inside)
        key = (stmt, self._conflicts.subgroup_size, barriers, frozenset(entry))
        if key not in self._exits:
            self._exits[key] = self._iterate(stmt, entry, facts), entry  # kept, since its keys are identities
        return self._exits[key][0]

    def _separates(self, stmt: Stmt) -> bool:
        """Whether a loop contains barriers, waits or commits, so that its body must be analyzed in order."""
        if self._accesses.summary(stmt).syncs:
            return True
        return any(s in self.before or s in self.ends for child in sub_statements(stmt) for s in walk(child))

    def _iterate(self, stmt: For | While, entry: State, facts: ContextFacts) -> State | None:
        """Iterates a loop body to the fixed point of the state at its head; gives the state after the loop."""
        carried = self._accesses.loop_carried(stmt, facts)
        inside = self._facts.in_body(stmt, facts)
        # a barrier before the loop separates what is pending now, but not what a wait inside of it completes
        self._entered.append((stmt, frozenset(id(p.access) for p in entry.values() if p.commits is None)))
        head: dict[tuple[int, int | None], Pending] = dict(entry)
        exits: list[State] = []
        for _ in range(_ROUNDS + 2 * self._oldest):
            self._exit_states.append(([], []))
            start: State = head
            if isinstance(stmt, While):
                start = self._leaf_of_while(stmt, head, facts)
            last = self._stmt(stmt.body, start, inside)
            breaks, continues = self._exit_states.pop()
            if isinstance(stmt, While):  # exits after evaluating its condition
                exits = [*breaks, start]
            else:
                exits = [*breaks, *continues, *([] if last is None else [last])]
            if last is not None and stmt.body in self.ends:
                last = after_barrier(last)
            again = merged([*continues, last])
            size = len(head)
            for pending in () if again is None else again.values():
                moved = carried.one_iteration_later(pending.access)
                if moved is not None:
                    head.update(keyed([Pending(moved, pending.commits)]))
            if len(head) == size:
                break
        else:
            raise CompilerBug("insert_barriers: the pending accesses of a loop do not converge")
        self._entered.pop()
        after = [keyed(Pending(carried.after(p.access), p.commits) for p in state.values()) for state in exits]
        return merged([*after, *([] if carried.surely_runs else [entry])])

    def _leaf_of_while(self, stmt: While, head: State, facts: ContextFacts) -> State:
        """The accesses of the condition, before each iteration; their barriers go to the ends of the body."""
        accesses = self._accesses.own(stmt, facts)
        entered = self._entered[-1][1]
        conflicting = self._conflicting(head, accesses, facts.domain)
        if conflicting and not self._insert:
            raise _BarrierMissing
        if any(id(p.access) not in entered for p in conflicting):
            if stmt.body in self.ends:
                self.before.update(own_jumps(stmt.body, Continue))
            self.ends.add(stmt.body)
            raise _Restart
        if conflicting:
            self._place_barrier(stmt, conflicting)
        return {**head, **keyed(Pending(t) for t in accesses)}

def insert_barriers(
    launch: Launch,
    warp_size: int,
    domain: Domain = Domain(),
    uniform: Uniformity | None = None,
    barrier: Callable[[Loc], Stmt] | None = None,
    subgroup_barriers: Sequence[tuple[int, Callable[[Loc], Stmt]]] = (),
) -> Launch:
    """The launch with barriers between conflicting accesses.

    Args:
        launch: At thread level, with its shared memory allocated.
        warp_size: Threads of a warp.
        domain: The facts that hold around it.
        uniform: Which values are uniform; None to analyze it.
        barrier: Makes a barrier, for groups of threads that are treated as a block.
        subgroup_barriers: Sizes of subgroups of neighboring threads in ascending order, each with a function that makes
            a barrier of one, for those that separate threads of the same subgroup only.
    """
    if launch.num_threads == 1:
        return launch
    analysis = _BarrierAnalysis(launch, warp_size, domain, uniform or uniformity(launch))
    analysis.run()
    if not analysis.before and not analysis.ends:
        return launch
    of_all = barrier or functools.partial(block_barrier, launch.num_threads, warp_size)
    of_subgroups: dict[Stmt, Callable[[Loc], Stmt]] = {}
    for size, make in reversed(subgroup_barriers):
        of_subgroups |= dict.fromkeys(analysis.within_subgroups(size), make)
    insert = PlaceBarriers(analysis.before, analysis.ends, lambda at: of_subgroups.get(at, of_all)(at.loc))
    return dataclasses.replace(launch, body=insert.visit(launch.body) or launch.body)


def has_enough_barriers(loop: For, launch: Launch, warp_size: int, domain: Domain = Domain()) -> bool:
    """Whether the barriers in a loop order all accesses in it that conflict; those around it may need further ones.

    Args:
        loop: A loop of the launch.
        launch: At thread level, with its shared memory allocated.
        warp_size: Threads of a warp.
        domain: The facts that hold around it.
    """
    analysis = _BarrierAnalysis(launch, warp_size, domain, uniformity(launch))
    analysis.run()
    return not any(stmt in analysis.before or stmt in analysis.ends for stmt in walk(loop.body))


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    domain, warp_size = of_function(func), context.target.machine.warp_size
    return with_launches(func, lambda launch: insert_barriers(launch, warp_size, domain))


PASS = Pass(
    "insert_barriers", _run, Level.THREAD, Level.THREAD,
    requires=(Property.SHARED_MEMORY_ALLOCATED, Property.SCALAR_LOADS_HOISTED, Property.LOGICAL_INDICES),
    establishes=(Property.BLOCK_BARRIERS_INSERTED,),
)
