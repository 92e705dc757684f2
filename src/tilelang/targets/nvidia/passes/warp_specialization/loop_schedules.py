"""The modulo schedules of consumers' loops: which of them gain by software pipelining.

Takes a launch and its load groups; gives a `LoopSchedule` for each pipelined loop that takes fewer cycles than in
program order, or so with a gemm in flight. The loop is prepared for it: parallel loops are distributed, so that each
part can be scheduled on its own, and operands of gemms are converted by statements of their own. Invariant: the
prepared loop computes the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from tilelang.analysis.divergence import divergence
from tilelang.analysis.stage_order import keeps, nearest_legal
from tilelang.arith.domain import Domain
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For, Launch, Stmt
from tilelang.ir.timeline import Timeline
from tilelang.ir.visit import walk, without_unused_bindings
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce
from tilelang.records import record
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.computed_tiles import VERSIONS, computed_tiles
from tilelang.schedule.consumer_loops import (
    PreparedLoop,
    asynchronous_gemms,
    consumer_body,
    is_allocated_across,
    prepared,
    runs_asynchronously,
    threads_access_memory,
)
from tilelang.schedule.in_flight import adds_to_same_registers
from tilelang.schedule.live_registers import live_registers
from tilelang.schedule.load_groups import LoadGroup, pipelined_loops
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import LoopGraph, Work, loop_graph, reordering_refusal
from tilelang.schedule.modulo import (
    MIN_GAIN,
    MIN_REORDER_GAIN,
    is_legal,
    longest_recurrence,
    modulo_schedule,
    schedule_of_runs,
)
from tilelang.schedule.override_errors import impossible_placement, statement_at, wrong_number_of_loops
from tilelang.schedule.software_pipeline import MAX_STAGES
from tilelang.targets.nvidia.passes.costs import gemm_work, rates_of, thread_work, with_exchange
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities, divides_columns
from tilelang.targets.nvidia.passes.warp_specialization.faster_tiles import faster_tiles
from tilelang.targets.nvidia.passes.warp_specialization.gemm_graph import gemm_graph
from tilelang.targets.nvidia.passes.warp_specialization.launch_rules import NotSpecialized
from tilelang.targets.nvidia.passes.warp_specialization.placed_loops import Placed, PlacedLoop
from tilelang.targets.nvidia.passes.warp_specialization.prepared_loops import LoopSchedule
from tilelang.targets.nvidia.passes.warp_specialization.producer_loads import partition_names, producer_loads
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import loop_values, registers_for_tiles
from tilelang.targets.nvidia.passes.warp_specialization.speculative_softmax import (
    MIN_SPECULATING_WARPGROUPS,
    RepeatableStep,
    SpeculativeLoop,
    repeatable_step,
    with_speculation,
)
from tilelang.targets.nvidia.schedule import MAX_VOTING_WARPGROUPS, WARPGROUP_THREADS, Schedule
from tilelang.transforms.split_masks import has_masks, without_masks
from tilelang.transforms.statement_places import placed_at

# Versions of tiles that both stages of a loop read, and so hold for two iterations: with fewer, no load overlaps gemms.
# MLA decode with two versions reached 499 TFLOP/s in program order on an H200, and 392 in two stages.
_MIN_CROSSING_VERSIONS = 3

KEEPS_ORDER = "T.Pipelined: consumers keep program order"  # how the notes on loops begin in which nothing overlaps


def loop_schedules(
    launch: Launch,
    load_groups: Sequence[LoadGroup],
    capabilities: TargetCapabilities,
    schedule: Schedule,
    domain: Domain,
    given: Sequence[Placement | None] | None = None,
    placed: Placed = MappingProxyType({}),
    *,
    double: bool = False,
    in_flight: int | None = None,
) -> tuple[list[LoopSchedule], list[Note], list[Timeline]]:
    """The schedules of loops in which something overlaps; notes on all, and timelines of the others.

    Args:
        launch: A launch as `fuse_clears` gives it.
        load_groups: All loads of the producer.
        capabilities: What the target's lowerings can do.
        schedule: The schedule of the launch.
        domain: What holds outside of the launch.
        given: The placements that a saved schedule has; None if there is none.
        placed: The loops that the user places, whose consumers keep that placement if there is no saved schedule.
        double: Whether computed tiles may have two versions.
        in_flight: How many gemms the user wants in flight where a loop is one gemm.

    Raises:
        ProgramError: A given placement does not fit its loop.
        NotSpecialized: Consumers cannot keep a placement of the user.
    """
    domain = domain.with_extents(launch.block_vars, launch.grid)
    loops = pipelined_loops(launch.body)
    if given is not None and len(given) != len(loops):
        raise wrong_number_of_loops(launch, len(given), len(loops))
    stores = capabilities.epilogue_stores(launch, schedule.tile_threads) if schedule.epilogue_parts else ()
    copies = {copy for store in stores if not store.adds for copy in (store.copy, store.writer)}
    schedules: list[LoopSchedule] = []
    notes: list[Note] = []
    in_order: list[Timeline] = []
    for number, loop in enumerate(loops):
        saved = None if given is None else given[number]
        found: LoopSchedule | str
        if any(stmt in copies for stmt in walk(loop.body)):
            # they wait for those before in any order: retention in chunks was 2 to 9 % slower on an H200 in another one
            found = "it stores results asynchronously"
        else:
            hand = placed.get(loop.var)
            scheduling = _Scheduling(
                loop, saved, hand, launch, load_groups, capabilities, schedule, domain, double, in_flight
            )
            found = scheduling.best()
            notes += scheduling.of_more_warpgroups()
        if saved is not None and isinstance(found, str):
            raise impossible_placement(loop, saved, found)
        if loop.var in placed and isinstance(found, str):
            raise NotSpecialized(f"consumers cannot keep `order` and `stage` of T.Pipelined: {found}")
        if not isinstance(found, str) and found.applies and (given is None or saved or found.schedule.in_flight):
            schedules.append(found)
            notes += [] if found.speculative is None else [found.speculative.note]
            continue
        in_order += [] if isinstance(found, str) else [found.timeline_in_order]
        if given is not None:
            continue
        if isinstance(found, str) or len(found.body.statements) > 1:  # a single gemm has nothing to overlap with
            reason = found if isinstance(found, str) else _why_in_order(found)
            notes.append(Note(f"{KEEPS_ORDER}: {reason}", loop.loc))
    return schedules, notes, in_order


def _why_in_order(found: LoopSchedule) -> str:
    """Why no schedule of a loop is better than program order, with the dependence that forbids it if one does."""
    graph, statements = found.graph, found.body.statements
    recurrence = longest_recurrence(graph)
    if recurrence is None or recurrence[1] <= graph.serial_cycles * (1 - MIN_GAIN):
        return _limit(found) or "no other order is faster by estimate"
    edge, cycles = recurrence
    first, last = statement_at(statements[edge.target]), statement_at(statements[edge.source])
    ends = {edge.source, edge.target}
    used = {storage.name: {number for number, _, _ in touching} for storage, touching in found.body.storages.items()}
    shared = [f"'{name}'" for name, numbers in used.items() if ends <= numbers]
    since = f", since both use {' and '.join(shared)}" if shared else ""
    return (
        f"{first} waits for {last} of the iteration before{since}; that chain takes {cycles} of the "
        f"{graph.serial_cycles} cycles of an iteration by estimate"
    )


def _limit(found: LoopSchedule) -> str:
    """What a faster order would need more of than there is; empty if there is none."""
    graph = found.graph
    of_registers, of_stages = (dataclasses.replace(graph, registers=None, together=t) for t in (graph.together, ()))
    for freed in (of_registers, of_stages):
        order = dataclasses.replace(found, graph=freed, schedule=modulo_schedule(freed))
        if order.applies:
            need = (
                f"hold {order.registers} registers of a thread for tiles, which may take {graph.registers}"
                if freed is of_registers
                else "use tiles in two iterations, for which shared memory would have to hold "
                f"{_MIN_CROSSING_VERSIONS} stages of them"
            )
            cycles = f"{order.schedule.cycles} cycles instead of {graph.serial_cycles}"
            return f"another order would take {cycles} by estimate, but {need}"
    return ""


@record(slots=True, eq=False)
class _Scheduling:
    """The search for the schedule of one consumer's loop.

    Attributes:
        loop: The loop.
        saved: The placement that a saved schedule has for it; None if there is none.
        placed: How the user places it; None where that is left to the compiler.
        launch: As `loop_schedules` takes them, like all others.
    """

    loop: For
    saved: Placement | None
    placed: PlacedLoop | None
    launch: Launch
    load_groups: Sequence[LoadGroup]
    capabilities: TargetCapabilities
    schedule: Schedule
    domain: Domain
    double: bool
    in_flight: int | None

    def best(self) -> LoopSchedule | str:
        """The schedule, `saved` if there is one; why the loop runs in program order where it has none.

        A step of a softmax is speculative where all of it runs in the first of two stages, whose prologue takes the
        whole step, and where that saves cycles; a saved schedule says by its statements which it is.
        """
        whole_step = self._scheduled(None)
        speculative = self._speculative()
        attempt = whole_step if speculative is None else self._scheduled(speculative)
        if isinstance(attempt, str) or attempt.speculation is None or not attempt.applies:
            return whole_step
        where, stage = attempt.speculation, attempt.schedule.stage
        if attempt.schedule.stages < MAX_STAGES or any(stage[where.first : where.last + 1]):
            return whole_step
        saves = isinstance(whole_step, str) or attempt.schedule.cycles < whole_step.schedule.cycles
        return attempt if self.saved is not None or saves else whole_step

    def _speculative(self) -> SpeculativeLoop | None:
        """The loop with a speculative step, if its warpgroups can vote and its schedule may have two stages."""
        can_vote = MIN_SPECULATING_WARPGROUPS <= self.schedule.consumers <= MAX_VOTING_WARPGROUPS
        step = self._repeatable_step() if can_vote else None
        if step is None:
            return None
        made = with_speculation(self.loop, step)
        return made if self.placed is None or self._places(made) is not None else None

    def _inside(self) -> list[LoadGroup]:
        """The load groups in the loop."""
        inside = set(walk(self.loop.body))
        return [group for group in self.load_groups if group.parent in inside]

    def _places(self, speculative: SpeculativeLoop | None) -> dict[Stmt, tuple[int, int]] | None:
        """Where the user places the statements of consumers; None if they are not the user's, or a step is in parts."""
        statements = consumer_body(self.loop, self._inside()).statements
        found = None if self.placed is None else self.placed.places_of(statements)
        if found is None:
            return None
        places = dict(zip(statements, found, strict=True))
        if speculative is None:
            return places
        left = set(flat_statements(speculative.loop.body))
        of_step = {place for stmt, place in places.items() if stmt not in left}
        return places | dict.fromkeys(speculative.step, of_step.pop()) if len(of_step) == 1 else None

    def of_more_warpgroups(self) -> list[Note]:
        """What there is to gain by as many warpgroups as speculate, if there is one less."""
        if self.schedule.consumers != MIN_SPECULATING_WARPGROUPS - 1 or self.saved is not None:
            return []
        machine, step = self.capabilities.context.target.machine, self._repeatable_step()
        note = None if step is None else faster_tiles(step, self.loop, self.launch, self.schedule.consumers, machine)
        return [] if note is None else [note]

    def _repeatable_step(self) -> RepeatableStep | None:
        schedule = self.schedule
        if schedule.stages < 2 or schedule.blocks_per_sm > 1:
            return None

        def can_be_in_flight(gemm: Gemm) -> bool:
            return runs_asynchronously(gemm, self.capabilities.wgmma_refusal, schedule.tile_threads)

        masks = has_masks(self.loop, self.domain, divergence(self.launch).is_uniform)
        return repeatable_step(self.loop, can_be_in_flight, masks=masks)

    def _scheduled(self, speculative: SpeculativeLoop | None) -> LoopSchedule | str:
        """The schedule of the loop, or of its speculative form."""
        loop, inside = self.loop, self._inside()
        if any(group.parent is not loop.body for group in inside):
            return "it loads tiles in branches or inner loops"
        changed = loop if speculative is None else speculative.loop
        whole, parts = (prepared(loop, changed, self.launch, separate=separate) for separate in (False, True))
        best = self._of_body(whole, speculative, inside)
        if len(whole.origins) == len(parts.origins):
            return best
        apart = self._of_body(parts, speculative, inside)
        if isinstance(best, str) or isinstance(apart, str):
            return best if isinstance(apart, str) else apart
        return apart if apart.applies and apart.cycles < best.cycles * (1 - MIN_REORDER_GAIN) else best

    def _of_body(
        self, made: PreparedLoop, speculative: SpeculativeLoop | None, inside: Sequence[LoadGroup]
    ) -> LoopSchedule | str:
        """The schedule of a prepared loop, whose tiles `inside` are loaded in it."""
        ready, operands = made.loop, (*made.operands, *(() if speculative is None else speculative.tiles))
        body = consumer_body(ready, inside)
        if is_allocated_across(body):
            return "it allocates buffers"
        threads = self.schedule.tile_threads
        runs = asynchronous_gemms(body, self.capabilities.wgmma_refusal, threads)
        refusal = reordering_refusal(body) if runs else "it has no asynchronous gemm"
        if refusal:
            return refusal

        # iterations without masks count, which `split_masked_loops` makes of most: gemms do the clears left in them
        unmasked = without_masks(ready, self.domain, divergence(self.launch).is_uniform)

        rates = rates_of(self.capabilities.context.target.machine)
        retry = None if speculative is None else speculative.retry
        divided = {stmt.c.buffer.storage for stmt in runs if isinstance(stmt, Gemm) and divides_columns(stmt)}

        def work(stmt: Stmt) -> Work:
            if isinstance(stmt, Gemm) and stmt in runs:
                return gemm_work(stmt, rates)
            if stmt is retry and retry.else_body is not None:
                return thread_work(retry.else_body, rates)  # the other branch is rare
            left = unmasked(stmt)
            if left is None or left is not stmt and isinstance(left, Fill):
                return Work(0)
            exchanges = isinstance(left, Reduce) and left.src.buffer.storage in divided
            # such as that of the mask
            cost = thread_work(left if left is stmt else without_unused_bindings(left), rates)
            return with_exchange(cost) if exchanges else cost

        consumers = threads // WARPGROUP_THREADS
        values = loop_values(body, self.launch, self.loop, consumers, retry)
        registers, one_stage = (
            registers_for_tiles(consumers, reordered_accesses=threads_access_memory(body), stages=stages)
            for stages in (MAX_STAGES, 1)
        )
        of_program = registers_for_tiles(consumers)
        together = _readers(body, inside) if self.schedule.stages < _MIN_CROSSING_VERSIONS else ()

        names = partition_names(self.schedule)
        loads = producer_loads(body, inside, self.schedule, self.capabilities.context.target.machine)
        of_gemm = gemm_graph(
            self.loop, self.launch, self.load_groups, self.capabilities, self.schedule, self.in_flight
        )

        def found(computed: frozenset[Buffer]) -> LoopSchedule:
            graph = of_gemm or loop_graph(body, work, dict.fromkeys(computed, VERSIONS), _waits)
            graph = dataclasses.replace(graph, values=values, registers=registers, together=together)
            count = len(graph.work)
            in_order = live_registers(graph, (0,) * count, range(count))
            # another order may hold as much as the program's, if that leaves enough to other values
            most = max(one_stage, in_order) if in_order <= of_program else one_stage
            graph = dataclasses.replace(graph, one_stage_registers=most - registers)
            return LoopSchedule(
                ready, operands, body, graph, modulo_schedule(graph), False, computed, speculative, loads, names
            )

        best = found(frozenset())
        computed = computed_tiles(body, self.loop, self.launch, runs) if self.double else frozenset()
        if computed and not best.applies:
            doubled = found(computed)
            best = doubled if doubled.applies else best
        required, placement_runs = self.saved, () if self.saved is None else self.saved.order
        if required is None and self.placed is not None and len(body.statements) > 1:
            of_user = self._places(speculative)
            if of_user is None:
                return "its statements are not those of the program"
            places = [of_user[made.origins[stmt]] for stmt in body.statements]
            required, placement_runs = placed_at(places), tuple(run for _, run in places)
        if required is not None:
            if reason := _violation(body, best.graph, required):
                return reason
            kept = schedule_of_runs(best.graph, required.stage, placement_runs)
            best = dataclasses.replace(best, schedule=kept, required=True)
        if best.schedule.stages == 1 and consumers > 1:
            best = dataclasses.replace(best, computed=computed)
        return best


def _waits(first: Stmt, second: Stmt) -> bool:
    """Whether threads wait for a gemm before they issue a statement that conflicts with it."""
    return not (isinstance(first, Gemm) and isinstance(second, Gemm) and adds_to_same_registers(first, second))


def _readers(body: LoopBody, load_groups: Iterable[LoadGroup]) -> tuple[frozenset[int], ...]:
    """The numbers of the statements that read the tiles of each load group."""
    return tuple(
        frozenset(number for tile in group.tiles for number, _, _ in body.storages.get(tile.storage, ()))
        for group in load_groups
    )


def _violation(body: LoopBody, graph: LoopGraph, placement: Placement) -> str:
    """Why a placement is impossible, and the nearest one that is not; empty if it is possible."""
    count = len(body.statements)
    if len(placement.stage) != count:
        return f"the loop has {count} statements without the loads of the producer, not {len(placement.stage)}"
    if placement.last >= MAX_STAGES:
        return f"statements of {placement.last + 1} stages would run at once, and at most {MAX_STAGES} can"
    if is_legal(graph, placement.stage, placement.sequence):
        return ""
    edges = [(edge.source, edge.target, edge.distance) for edge in graph.edges]
    source, target, distance = next(edge for edge in edges if not keeps(placement, edge))
    earlier, later = (statement_at(body.statements[number]) for number in (source, target))
    when = "of the iteration before" if distance else "of the same iteration"
    nearest = nearest_legal(placement, edges)
    nearest = nearest if nearest.last < MAX_STAGES else in_sequence((0,) * count, range(count))
    return f"{later} would run before {earlier} {when}, on which it depends; {nearest} is the nearest that keeps it"
