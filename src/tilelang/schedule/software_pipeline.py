"""Software pipelining of a consumer's loop: gemms run asynchronously beside the arithmetic of the next iteration.

Takes a loop with a `ModuloSchedule` and the pipelines that it reads; gives its prologue, steady state and epilogue.
Waits for gemms come before the first statement that touches what they use, and stages of pipelines are released after
them. Invariant: each pipeline is waited for and released as often, and in the same order, as in the loop; and no gemm
is in flight where paths with and without it join, since compilers then serialize all. Tiles from outside of the loop
that only stage 0 reads are released before the epilogue, so that the producer loads the next tile's meanwhile. Where
gemms are in flight across iterations, the waits for them and the releases are one iteration later, and the first
iteration releases nothing, in place of a prologue.

    wait Q; for i: wait K; S = Q K; release K; P = f(S); O *= g(S); wait V; O += P V; release V; then release Q

becomes, with the second gemm in stage 1:

    wait Q; wait K; S = Q K; wait for S; release K; P = f(S); O *= g(S)
    for i but the last:
        wait K of i + 1; S = Q K; wait V; O += P V
        wait for S; release K; f(S); wait for O; release V; P = ...; O *= g(S)
    release Q; wait V; O += P V; wait for O; release V

or, rotated, so that f, g and O += P V stand once:

    wait Q; wait K; S = Q K; wait for S; release K
    for i:
        f(S); wait for O; release V of i - 1; P = ...; O *= g(S)
        if i is not the last: wait K of i + 1; S = Q K
        wait V; O += P V; wait for S; release K of i + 1
    release Q; wait for O; release V

A speculative step of a softmax (`Speculation`) stands in the steady state alone: the prologue takes the whole step
instead. The steady state has both, one in each branch of a constant condition, of which a later pass makes loops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from tilelang.analysis.accesses import accesses, storages
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var, const
from tilelang.ir.sequences import flat_statements, statements_of, with_location
from tilelang.ir.stmt import Alloc, For, ForKind, If, Seq, Stmt
from tilelang.ir.visit import substitute
from tilelang.lowering.regions import whole
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.records import record
from tilelang.schedule.alternate_tiles import AlternateTiles
from tilelang.schedule.in_flight import InFlight, adds_to_same_registers, is_fenceable_fragment
from tilelang.schedule.issue_order import IssueOrder
from tilelang.schedule.iteration import Iteration, time_within, times_before, trip_count, versions_in
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.modulo import ModuloSchedule
from tilelang.schedule.pipeline_buffers import PartitionStates, PipelineBuffer, PipelineState
from tilelang.transforms.fresh_names import with_fresh_names

MAX_STAGES = 2


@record(slots=True)
class Speculation:
    """A step of a softmax in a loop that assumes that no score is much larger than all before, as in most iterations.

    Attributes:
        first: The number of the first statement that rests on this.
        vote: That of the statement that tells where it is wrong.
        last: That of the branch that takes the whole step there.
        product: How many statements of that branch compute the scores again, before the step.
        early: How many statements of the step come next that need nothing but the scores.
    """

    first: int
    vote: int
    last: int
    product: int
    early: int


@record(slots=True, eq=False)
class OwnStop:
    """The end of a loop for a group of consumers.

    Attributes:
        value: What the loop's variable stays below; there is an iteration.
        setup: Statements that define it.
    """

    value: Var
    setup: tuple[Stmt, ...]


@record(slots=True, eq=False)
class Rotation:
    """The statements of an iteration of a pipelined loop, in the order in which they run.

    Attributes:
        ahead: Those of stage 0 that come first.
        behind: Those of stage 1.
        alone: The others of stage 0, with which the rotated loop begins.
    """

    ahead: Sequence[int]
    behind: Sequence[int]
    alone: Sequence[int]


@record(slots=True, eq=False)
class SoftwarePipeline:
    """A loop and how it is pipelined.

    Attributes:
        loop: The loop of the original program.
        body: Its statements without loads.
        schedule: When they run.
        pipelines: The tiles that it reads and that are loaded in it.
        asynchronous: Its gemms that run asynchronously.
        staged: What stands for its copies of results, which the copy engine stores asynchronously.
        order: Orders the gemms of groups of consumers; None if they issue them as they come.
        computed: The tiles that its threads compute in two versions, with the buffers of both.
        rotation: The parts of an iteration, if the loop is to be rotated where states of pipelines are not counted.
        speculation: A speculative step of a softmax in it; the prologue takes the whole step.
        own_stop: Where the loop stops for a group of consumers that computes nothing in later iterations, in which it
            goes on with the others through pipelines and order barriers; None if all compute in all.
    """

    loop: For
    body: LoopBody
    schedule: ModuloSchedule
    pipelines: tuple[PipelineBuffer, ...]
    asynchronous: frozenset[Stmt]
    staged: Mapping[Stmt, Sequence[Stmt]] = field(default_factory=dict)
    order: IssueOrder | None = None
    computed: Mapping[Buffer, Buffer] = field(default_factory=dict)
    rotation: Rotation | None = None
    speculation: Speculation | None = None
    own_stop: OwnStop | None = None

    def whole_step(self, number: int) -> Sequence[Stmt] | None:
        """What stands for a statement where the step of a softmax is not speculative; None for itself."""
        where = self.speculation
        if where is None or not where.first <= number <= where.last:
            return None
        branch = self.body.statements[where.last]
        assert isinstance(branch, If)
        step = statements_of(branch.then_body)[where.product :]
        return {where.vote: step[: where.early], where.last: step[where.early :]}.get(number, ())

    def readers(self, each: PipelineBuffer, *, speculates: bool = True) -> list[Stmt]:
        """The statements that read the tiles of a pipeline, in the order in which they run for one iteration.

        Where the step of a softmax is not speculative, its gemm is not computed again.
        """
        position = {number: place for place, number in enumerate(self.schedule.order)}
        numbers = {number for tile in each.tiles for number, _, _ in self.body.storages.get(tile.storage, ())}
        numbers = {number for number in numbers if speculates or self.whole_step(number) is None}
        in_order = sorted(numbers, key=lambda number: (self.schedule.stage[number], position[number]))
        return [self.body.statements[number] for number in in_order]

    @property
    def crossing(self) -> tuple[PipelineBuffer, ...]:
        """The pipelines whose tiles both stages read: a version is held for two iterations of the pipelined loop."""
        stage = dict(zip(self.body.statements, self.schedule.stage, strict=True))
        ends = {each: self.readers(each) for each in self.pipelines}
        return tuple(each for each, readers in ends.items() if stage[readers[0]] != stage[readers[-1]])

    def releases_before_epilogue(self, each: PipelineBuffer) -> bool:
        """Whether the tiles of a pipeline that is filled outside of the loop are free when its epilogue begins."""
        stage = dict(zip(self.body.statements, self.schedule.stage, strict=True))
        readers = self.readers(each)
        return bool(readers) and all(stage[reader] < self.schedule.stages - 1 for reader in readers)

    def expand(
        self,
        states: PartitionStates,
        late_states: PartitionStates,
        releases: Callable[[], list[Stmt]],
        tile_order: AlternateTiles | None = None,
    ) -> list[Stmt]:
        """Prologue, steady state and epilogue; nothing of it runs where the loop has no iteration.

        With a single stage there is the steady state alone, and the wait for gemms that are still in flight.

        Args:
            states: The states of all pipelines.
            late_states: Further states of those in `crossing`, for stage 1.
            releases: Makes what releases the stages of pipelines for which `releases_before_epilogue` holds.
            tile_order: One of two groups whose main loops alternate; None without ping-pong.
        """
        loop = self.loop
        emission = _Emission(self, states, late_states)
        if self.schedule.in_flight:
            return self._in_turn(*emission.in_flight(), tile_order)
        if self.schedule.stages == 1:
            return [_serial(loop, loop.stop, emission.statements(self.schedule.order, time_within(loop, 0)))]
        parts = None if any(map(states.is_counted, self.pipelines)) else self.rotation
        prologue, steady, epilogue = emission.in_order() if parts is None else emission.rotated(parts)
        statements = [
            *(() if self.own_stop is None else self.own_stop.setup),
            with_fresh_names(Seq(tuple(prologue), loc=loop.loc)),
            steady,
            *releases(),
            with_fresh_names(Seq(tuple(epilogue), loc=loop.loc)),
        ]
        if proves(trip_count(loop) >= 1, Domain()):
            return statements
        otherwise = Seq(tuple(made), loc=loop.loc) if (made := releases()) else None
        return [If(trip_count(loop) >= 1, Seq(tuple(statements), loc=loop.loc), otherwise, loc=loop.loc)]

    def _in_turn(self, steady: Stmt, end: Sequence[Stmt], tile_order: AlternateTiles | None) -> list[Stmt]:
        """The steady state with gemms in flight and its end, ordered among two groups whose main loops alternate."""
        if tile_order is None:
            return [steady, *end]
        # a second gemm waits for the first, so that all warps have passed the order barrier; a single one does not
        has_second, (wait, *releases) = proves(trip_count(self.loop) >= 2, Domain()), end
        before, arrive = (with_location(s, self.loop.loc) for s in (tile_order.wait(), tile_order.arrive()))
        return [before, steady, *((arrive, wait) if has_second else (wait, arrive)), *releases]


def _last_value(loop: For) -> Expr:
    """The value of a loop's variable in its last iteration."""
    return loop.start + (trip_count(loop) - 1) * loop.step


def _serial(loop: For, stop: Expr, body: Sequence[Stmt]) -> For:
    sequence = Seq(tuple(body), loc=loop.body.loc)
    return dataclasses.replace(loop, stop=stop, kind=ForKind.SERIAL, pipeline=None, body=sequence)


class _Iteration(Iteration):
    """One iteration of the original loop.

    Attributes:
        states: The states of the pipelines that it has waited for.
    """

    def __init__(self, body: LoopBody, value: Expr, versions: Mapping[Buffer, tuple[Buffer, Expr]]) -> None:
        super().__init__(body, value, versions)
        self.states: dict[PipelineBuffer, PipelineState] = {}

    def enter(self, each: PipelineBuffer, states: PartitionStates) -> PipelineState:
        """The state of a pipeline, whose tiles the statements that follow read."""
        state = self.states[each] = states.state(each, self.renamed)
        self.versions |= each.on_stage(state)
        return state


class _Emission:
    """Emits statements, with the waits that they need."""

    def __init__(self, pipeline: SoftwarePipeline, states: PartitionStates, late_states: PartitionStates) -> None:
        self._pipeline = pipeline
        self._states, self._late_states = states, late_states
        self._crossing = pipeline.crossing
        readers = {each: pipeline.readers(each) for each in pipeline.pipelines}
        self._first = {each: in_order[0] for each, in_order in readers.items()}
        self._last_if_speculating = {
            True: {each: in_order[-1] for each, in_order in readers.items()},
            False: {each: pipeline.readers(each, speculates=False)[-1] for each in pipeline.pipelines},
        }
        self._in_flight: list[InFlight] = []
        self._issues = False  # whether gemms are being issued since the last order barrier
        self._hoisted: list[Stmt] | None = None  # what defines states, where that stands in front of a branch
        self._speculates = True

    @property
    def _last(self) -> dict[PipelineBuffer, Stmt]:
        """The last statement that reads the tiles of each pipeline."""
        return self._last_if_speculating[self._speculates]

    def in_order(self) -> tuple[list[Stmt], Stmt, list[Stmt]]:
        """Prologue, steady state and epilogue of a loop that runs the statements of both stages in one order."""
        loop, order, stage = self._pipeline.loop, self._pipeline.schedule.order, self._pipeline.schedule.stage
        own_stop = self._pipeline.own_stop
        computing = loop if own_stop is None else dataclasses.replace(loop, stop=own_stop.value)
        (before,) = times_before(loop, 1)
        self._speculates = False
        prologue = self.statements([n for n in order if not stage[n]], before)
        whole = self.statements(order, time_within(loop, 1)) if self._pipeline.speculation is not None else []
        self._speculates = True
        steady = self.statements(order, time_within(loop, 1))
        if whole:  # a later pass makes a loop of each
            steady = [If(const(True, BOOL), Seq(tuple(steady)), Seq(tuple(whole)), loc=loop.loc)]
        epilogue = self.statements([n for n in order if stage[n]], {1: _last_value(computing)})
        if own_stop is not None:
            others = self._without_computation(dataclasses.replace(loop, start=own_stop.value))
            epilogue.append(others)
        return prologue, _serial(computing, computing.stop - loop.step, steady), epilogue

    def _without_computation(self, loop: For) -> Stmt:
        """Iterations in which this group computes nothing, but waits for what others read, and for its turn."""
        order, waits = self._pipeline.order, list[Stmt]()
        for each in self._pipeline.pipelines:
            state = self._states.state(each)
            waits += [*state.setup, each.wait(state), *each.release(state.index), *state.advance]
        turn = [] if order is None else [order.wait(), order.arrive()]
        return with_fresh_names(_serial(loop, loop.stop, [with_location(s, loop.loc) for s in (*turn, *waits)]))

    def in_flight(self) -> tuple[Stmt, list[Stmt]]:
        """The steady state of a loop whose gemms are in flight until those of the next iteration have been issued."""
        loop, order = self._pipeline.loop, self._pipeline.schedule.order
        statements = map(self._pipeline.body.statements.__getitem__, order)
        gemms = [s for s in statements if isinstance(s, Gemm) and s in self._pipeline.asynchronous]
        self._in_flight = [InFlight(gemm, self._releases_before(gemm)) for gemm in gemms]
        steady = [*self._issued(order, {0: loop.var}), *self._wait(len(gemms))]
        self._in_flight = [InFlight(gemm, self._releases_of(gemm, _last_value(loop))) for gemm in gemms]
        return _serial(loop, loop.stop, [with_location(s, loop.loc) for s in steady]), self._end()

    def rotated(self, parts: Rotation) -> tuple[list[Stmt], Stmt, list[Stmt]]:
        """Prologue, steady state and epilogue of a rotated loop."""
        loop = self._pipeline.loop
        following = loop.var + loop.step
        has_next = following < loop.stop if loop.step > 0 else following > loop.stop
        prologue = self.statements(parts.ahead, {0: loop.start})

        self._hoisted = hoisted = list[Stmt]()
        ahead = self._issued(parts.ahead, {0: following})
        self._hoisted = None
        steps = [] if self._pipeline.order is None else self._pipeline.order.steps(ahead)
        branch = If(has_next, Seq(tuple(ahead)), Seq(tuple(steps)) if steps else None)
        gemms_ahead = list(self._in_flight)
        for each in gemms_ahead:
            each.releases[:] = [If(has_next, Seq(tuple(each.releases)))] if each.releases else []
        behind = [*self._issued(parts.behind, {1: loop.var}), *self._end_of_issue()]
        behind += self._wait(sum(each in self._in_flight for each in gemms_ahead))
        steady = [with_location(s, loop.loc) for s in (*hoisted, branch, *behind)]

        carried = self._in_flight
        self._in_flight = [
            InFlight(each.gemm, self._releases_before(each.gemm), dict(each.computed)) for each in carried
        ]
        steady = [*self.statements(parts.alone, {0: loop.var}), *steady]
        self._in_flight = [
            dataclasses.replace(each, releases=self._releases_of(each.gemm, _last_value(loop))) for each in carried
        ]
        return prologue, _serial(loop, loop.stop, steady), self._end()

    def _releases_before(self, gemm: Gemm) -> list[Stmt]:
        """Releases what a gemm has read in the iteration before, if there is one."""
        loop = self._pipeline.loop
        made: list[Stmt] = []
        for each in self._pipeline.pipelines:
            if self._last[each] is gemm and each.pipeline.empty is not None:
                # an iteration ahead uses the same version, and its number is not negative
                *setup, release = self._released(each, loop.var + (each.versions - 1) * loop.step)
                made += [*setup, If(loop.var != loop.start, release)]
        return made

    def _releases_of(self, gemm: Gemm, value: Expr) -> list[Stmt]:
        """Releases what a gemm has read in the iteration of a value of the loop's variable."""
        pipelines = self._pipeline.pipelines
        read = [each for each in pipelines if self._last[each] is gemm and each.pipeline.empty is not None]
        return [s for each in read for s in self._released(each, value)]

    def statements(self, numbers: Sequence[int], values: Mapping[int, Expr]) -> list[Stmt]:
        """Statements in order, and waits for all their gemms.

        Args:
            numbers: The statements.
            values: The loop variable's value for each stage.
        """
        return [*self._issued(numbers, values), *self._end()]

    def _end(self) -> list[Stmt]:
        """Waits for all gemms, after the next group may issue its own."""
        last = [*self._end_of_issue(), *self._wait(len(self._in_flight))]
        return [with_location(s, self._pipeline.loop.loc) for s in last]

    def _issued(self, numbers: Sequence[int], values: Mapping[int, Expr]) -> list[Stmt]:
        """Statements in order, of which the last gemms may still be issued and in flight."""
        loop, stage, body = self._pipeline.loop, self._pipeline.schedule.stage, self._pipeline.body
        versions = {each: versions_in(loop, value, self._pipeline.computed) for each, value in values.items()}
        iterations = {each: _Iteration(body, value, versions[each]) for each, value in values.items()}
        emitted: list[Stmt] = []
        for number in numbers:
            loc = body.statements[number].loc
            emitted += (with_location(s, loc) for s in self._statement(number, iterations[stage[number]]))
        return emitted

    def _statement(self, number: int, iteration: _Iteration) -> Iterator[Stmt]:
        stmt = self._pipeline.body.statements[number]
        instead = None if self._speculates else self._pipeline.whole_step(number)
        if instead is not None and not instead:
            return
        is_asynchronous = isinstance(stmt, Gemm) and stmt in self._pipeline.asynchronous
        blocking = max(map(self._blocking, instead or (stmt,)))
        if not is_asynchronous or blocking:
            yield from self._end_of_issue()
        yield from self._wait(blocking)
        yield from iteration.bindings(number)
        yield from self._allocations(stmt, iteration)
        yield from self._acquire(stmt, iteration)
        moved = iteration.moved(stmt)
        last = [each for each in self._pipeline.pipelines if self._last[each] is stmt]
        releases = [s for each in last for s in self._release(each, iteration)]
        if isinstance(stmt, Gemm) and is_asynchronous:
            yield from self._begin_of_issue()
            continued = any(adds_to_same_registers(each.gemm, stmt) for each in self._in_flight)
            yield dataclasses.replace(moved, wait=-1, follows_wait=not continued)  # type: ignore[call-arg]
            self._in_flight.append(InFlight(stmt, releases))
            return
        if (instead := instead or self._pipeline.staged.get(stmt)) is not None:
            yield from map(iteration.moved, instead)
        else:
            yield moved
        written = [a.buffer for a in accesses(moved).writes if is_fenceable_fragment(a.buffer)]
        for gemm in self._in_flight:
            gemm.computed.update(dict.fromkeys(written))
        tiles = {tile.storage for each in last for tile in each.tiles}
        reading = [n + 1 for n, each in enumerate(self._in_flight) if _reads(each.gemm, tiles)]
        yield from self._wait(max(reading, default=0))
        yield from releases

    def _begin_of_issue(self) -> Iterator[Stmt]:
        """Waits until it is this group's turn to issue gemms, if it does not issue any already."""
        if self._pipeline.order is not None and not self._issues:
            self._issues = True
            yield self._pipeline.order.wait()

    def _end_of_issue(self) -> Iterator[Stmt]:
        """Lets the next group issue gemms, if this one did."""
        if self._pipeline.order is not None and self._issues:
            self._issues = False
            yield self._pipeline.order.arrive()

    def _acquire(self, stmt: Stmt, iteration: _Iteration) -> Iterator[Stmt]:
        """Finds the versions of the tiles that a statement reads, and waits for those that nobody has waited for."""
        read = storages(stmt).all
        for each in self._pipeline.pipelines:
            if each in iteration.states or not any(tile.storage in read for tile in each.tiles):
                continue
            if self._first[each] is not stmt:  # in stage 1 of a tile for which stage 0 has waited
                yield from self._set_up(iteration.enter(each, self._late_states))
                continue
            state = iteration.enter(each, self._states)
            yield from (*self._set_up(state), each.wait(state))
            if each in self._crossing:
                yield from state.advance

    def _set_up(self, state: PipelineState) -> Sequence[Stmt]:
        """Defines the index and the phase of a state, in front of a branch if there is one."""
        if self._hoisted is None:
            return state.setup
        self._hoisted += state.setup
        return ()

    def _allocations(self, stmt: Stmt, iteration: _Iteration) -> Iterator[Stmt]:
        """The allocations of what a statement uses alone."""
        for alloc in flat_statements(self._pipeline.body.loop.body):
            if isinstance(alloc, Alloc) and _uses(stmt, alloc.buffer):
                new_buffer = iteration.buffers[alloc.buffer] = dataclasses.replace(alloc.buffer)
                init = None if alloc.init is None else iteration.renamed(alloc.init)
                yield dataclasses.replace(alloc, buffer=new_buffer, init=init)

    def _released(self, each: PipelineBuffer, value: Expr) -> list[Stmt]:
        """Releases the stage of a pipeline in the iteration of a value of the loop's variable."""
        at = {self._pipeline.loop.var: value}
        state = self._late_states.state(each, lambda expr: substitute(expr, at))
        release = Seq(tuple(each.release(state.index)))
        return [*state.setup, release]

    def _release(self, each: PipelineBuffer, iteration: _Iteration) -> list[Stmt]:
        state = iteration.states[each]
        return [*each.release(state.index), *state.advance]

    def _blocking(self, stmt: Stmt) -> int:
        """How many of the oldest gemms in flight must be complete before a statement."""
        computed = self._pipeline.computed
        return max((n + 1 for n, each in enumerate(self._in_flight) if each.blocks(stmt, computed)), default=0)

    def _wait(self, count: int) -> list[Stmt]:
        """Waits for the `count` oldest gemms, and releases what they have read."""
        if not count:
            return []
        complete, self._in_flight = self._in_flight[:count], self._in_flight[count:]
        computed, adding = complete[-1].computed, {each.gemm.c.buffer for each in self._in_flight}
        results = dict.fromkeys(buffer for each in complete if (buffer := each.gemm.c.buffer) not in adding)
        tied = tuple(whole(buffer) for buffer in computed if buffer not in results)
        wait = GemmWait(len(self._in_flight), tuple(map(whole, results)), tied)
        return [wait, *(s for each in complete for s in each.releases)]


def _reads(gemm: Gemm, tiles: set[Buffer]) -> bool:
    return any(region.buffer.storage in tiles for region in (gemm.a, gemm.b))


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    return buffer in storages(stmt).all
