"""The modulo schedules of consumers' loops: which of them gain by software pipelining.

Takes a launch and its load groups; gives a `LoopSchedule` for each pipelined loop that takes fewer cycles than in
program order. The loop is prepared for it: parallel loops are distributed, so that each part can be scheduled on its
own, and operands of gemms are converted by statements of their own. Invariant: the prepared loop computes the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tilelang.analysis.stage_order import keeps, nearest_legal
from tilelang.analysis.whole_stores import overwritten
from tilelang.arith.domain import Domain
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, For, Launch, ParallelLoop, Seq, Stmt
from tilelang.ir.timeline import Timeline
from tilelang.ir.visit import Rewriter, accessed_buffers, walk, without, without_unused_bindings
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce
from tilelang.records import record
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.explain import program_order, timeline
from tilelang.schedule.live_registers import live_registers
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import LoopGraph, Value, Work, loop_graph, reordering_refusal
from tilelang.schedule.modulo import (
    MIN_GAIN,
    MIN_REORDER_GAIN,
    ModuloSchedule,
    cycles_of,
    is_legal,
    longest_recurrence,
    modulo_schedule,
)
from tilelang.schedule.override_errors import impossible_placement, statement_at, wrong_number_of_loops
from tilelang.targets.nvidia.passes.costs import gemm_work, thread_work, with_exchange
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import (
    TargetCapabilities,
    adds_to_same_registers,
    converted_operand,
    divides_columns,
)
from tilelang.targets.nvidia.passes.warp_specialization.computed_tiles import (
    VERSIONS,
    accessed_outside,
    computed_tiles,
    doubled_tiles,
)
from tilelang.targets.nvidia.passes.warp_specialization.load_groups import LoadGroup, is_pipelined
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import registers_for_tiles, tile_registers
from tilelang.targets.nvidia.passes.warp_specialization.software_pipeline import MAX_STAGES
from tilelang.targets.nvidia.passes.warp_specialization.uniform_scalars import UniformScalars
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule
from tilelang.transforms.distribute_parallel import distributed
from tilelang.transforms.running_softmax import with_rare_rescaling
from tilelang.transforms.separate_conversions import with_separate_conversions
from tilelang.transforms.split_masks import without_masks

# Versions of tiles that both stages of a loop read, and so hold for two iterations: with fewer, no load overlaps gemms.
# MLA decode with two versions reached 499 TFLOP/s in program order on an H200, and 392 in two stages.
_MIN_CROSSING_VERSIONS = 3


KEEPS_ORDER = "T.Pipelined: consumers keep program order"  # how the notes on loops begin in which nothing overlaps


@record(slots=True, eq=False)
class LoopSchedule:
    """A loop and its schedule.

    Attributes:
        loop: The prepared loop.
        operands: The fragments of converted operands, which it uses and which are to be allocated outside.
        body: Its statements without loads.
        graph: Their dependences.
        schedule: When they run.
        required: Whether the user asks for this schedule.
        computed: The tiles that may have two versions.
    """

    loop: For
    operands: tuple[Buffer, ...]
    body: LoopBody
    graph: LoopGraph
    schedule: ModuloSchedule
    required: bool = False
    computed: frozenset[Buffer] = frozenset()

    @property
    def doubled(self) -> dict[Buffer, Buffer]:
        """The computed tiles that have two versions, with the buffers of both."""
        return doubled_tiles(self.body, self.schedule, self.computed)

    @property
    def applies(self) -> bool:
        """Whether the user asks for it, or it is better than the program's order with a wait after each gemm.

        A single gemm is not: it may be in flight until that of the next iteration is issued (`carries`). Further stages
        must be worth their prologue and epilogue.
        """
        least = MIN_GAIN if self.schedule.stages > 1 else MIN_REORDER_GAIN
        gains = self.schedule.cycles < self.graph.serial_cycles * (1 - least)
        return len(self.graph.work) > 1 and (self.required or gains)

    @property
    def cycles(self) -> int:
        """The cycles of an iteration by estimate."""
        return self.schedule.cycles if self.applies else self.graph.serial_cycles

    @property
    def placement(self) -> Placement:
        """When the statements of the body run."""
        return in_sequence(self.schedule.stage, self.schedule.order)

    @property
    def registers(self) -> int:
        """The most registers of a thread that the loop's tiles take at once."""
        return live_registers(self.graph, self.schedule.stage, self.schedule.order)

    @property
    def issues_together(self) -> bool:
        """Whether all asynchronous gemms of an iteration, at least two, are issued without a wait between them."""
        graph, order, stage = self.graph, self.schedule.order, self.schedule.stage
        places = [place for place, number in enumerate(order) if graph.work[number].asynchronous]
        gemms = {order[place] for place in places}
        waits = any(
            edge.waits
            and {edge.source, edge.target} <= gemms
            and stage[edge.source] == stage[edge.target] + edge.distance
            for edge in graph.edges
        )
        return len(places) > 1 and places[-1] - places[0] == len(places) - 1 and not waits

    @property
    def timeline(self) -> Timeline:
        """What `kernel.explain()` shows of it."""
        return self._timeline(self.schedule)

    @property
    def timeline_in_order(self) -> Timeline:
        """What it shows where the loop keeps program order."""
        return self._timeline(program_order(self.graph))

    def _timeline(self, schedule: ModuloSchedule) -> Timeline:
        labels = [f"line {s.loc.line}" if s.loc.line else type(s).__name__ for s in self.body.statements]
        return timeline(self.graph, schedule, labels, self.loop.loc)


def loop_schedules(
    launch: Launch,
    load_groups: Sequence[LoadGroup],
    capabilities: TargetCapabilities,
    schedule: Schedule,
    domain: Domain,
    given: Sequence[Placement | None] | None = None,
    *,
    double: bool = False,
) -> tuple[list[LoopSchedule], list[Note], list[Timeline]]:
    """The schedules of loops that take fewer cycles than in program order; why others do not, and their timelines.

    Args:
        launch: A launch as `fuse_clears` gives it.
        load_groups: All loads of the producer.
        capabilities: What the target's lowerings can do.
        schedule: The schedule of the launch.
        domain: What holds outside of the launch.
        given: The placements that a saved schedule has; None if there is none.
        double: Whether computed tiles may have two versions.

    Raises:
        ProgramError: A given placement does not fit its loop.
    """
    domain = domain.with_extents(launch.block_vars, launch.grid)
    loops = [loop for loop in walk(launch.body) if isinstance(loop, For) and is_pipelined(loop)]
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
            found = _loop_schedule(loop, launch, load_groups, capabilities, schedule, domain, saved, double)
        if saved is not None and isinstance(found, str):
            raise impossible_placement(loop, saved, found)
        if not isinstance(found, str) and found.applies and (given is None or saved is not None):
            schedules.append(found)
            continue
        in_order += [] if isinstance(found, str) else [found.timeline_in_order]
        if given is not None:
            continue
        if isinstance(found, str) or len(found.body.statements) > 1:  # a single gemm has nothing to overlap with
            reason = found if isinstance(found, str) else _why_in_order(found)
            notes.append(Note(f"{KEEPS_ORDER}: {reason}", loop.loc))
    return schedules, notes, in_order


def issues_in_order(schedules: Iterable[LoopSchedule], consumers: int, override: bool | None) -> bool:
    """Whether `consumers` warpgroups issue their gemms one after another: where each issues several at once.

    On an H200 attention gained up to 10 % with three warpgroups, and nothing with two, of which one computes while the
    other one issues in any case.
    """
    if consumers < 2 or not any(each.issues_together for each in schedules):
        return False
    return consumers > 2 if override is None else override


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


def with_prepared_loops(launch: Launch, schedules: Iterable[LoopSchedule]) -> Launch:
    """The launch with the prepared loops in the place of the original ones, and without tiles that these do not use."""
    prepared = {each.loop.var: each for each in schedules}
    if not prepared:
        return launch
    body = _WithPreparedLoops(prepared).visit(launch.body) or Seq((), loc=launch.loc)
    annotated = {buffer.storage for buffer, _ in launch.hints.layouts}
    unused = _used(launch.body) - _used(body) - annotated
    left = without(body, {s for s in walk(body) if isinstance(s, Alloc) and s.buffer.storage in unused})
    return dataclasses.replace(launch, body=left)


def _used(body: Stmt) -> set[Buffer]:
    return {buffer.storage for stmt in walk(body) for buffer in accessed_buffers(stmt)}


class _WithPreparedLoops(Rewriter):
    def __init__(self, prepared: dict[Var, LoopSchedule]) -> None:
        self._prepared = prepared

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, For) or node.var not in self._prepared:
            return self.rebuild_stmt(node)
        found = self._prepared[node.var]
        return Seq((*(Alloc(each, loc=node.loc) for each in found.operands), found.loop), loc=node.loc)


def _loop_schedule(
    loop: For,
    launch: Launch,
    load_groups: Sequence[LoadGroup],
    capabilities: TargetCapabilities,
    schedule: Schedule,
    domain: Domain,
    saved: Placement | None,
    double: bool,
) -> LoopSchedule | str:
    """The schedule of a consumer's loop, `saved` if there is one; why it runs in program order where it has none."""
    inside = [group for group in load_groups if any(s is group.parent for s in walk(loop.body))]
    if any(group.parent is not loop.body for group in inside):
        return "it loads tiles in branches or inner loops"

    def of_body(operands: tuple[Buffer, ...], prepared: For) -> LoopSchedule | str:
        return _body_schedule(
            prepared, operands, loop, launch, inside, capabilities, schedule, domain, saved, double=double
        )

    whole, parts = (_prepared(loop, launch, separate=separate) for separate in (False, True))
    best = of_body(*whole)
    if len(flat_statements(whole[1].body)) == len(flat_statements(parts[1].body)):
        return best
    apart = of_body(*parts)
    if isinstance(best, str) or isinstance(apart, str):
        return best if isinstance(apart, str) else apart
    return apart if apart.applies and apart.cycles < best.cycles * (1 - MIN_REORDER_GAIN) else best


def _body_schedule(
    prepared: For,
    operands: tuple[Buffer, ...],
    loop: For,
    launch: Launch,
    inside: Sequence[LoadGroup],
    capabilities: TargetCapabilities,
    schedule: Schedule,
    domain: Domain,
    saved: Placement | None,
    *,
    double: bool,
) -> LoopSchedule | str:
    """The schedule of a prepared loop, whose tiles `inside` are loaded in it."""
    body = consumer_body(prepared, inside)
    if _is_allocated_across(body):
        return "it allocates buffers"
    threads = schedule.tile_threads
    runs = asynchronous_gemms(body, capabilities, threads)
    refusal = reordering_refusal(body) if runs else "it has no asynchronous gemm"
    if refusal:
        return refusal

    # iterations without masks count: `split_masked_loops` makes them of most, in which gemms do what clears are left
    unmasked = without_masks(prepared, domain, UniformScalars(launch).is_uniform)

    divided = {stmt.c.buffer.storage for stmt in runs if isinstance(stmt, Gemm) and divides_columns(stmt)}

    def work(stmt: Stmt) -> Work:
        if isinstance(stmt, Gemm) and stmt in runs:
            return gemm_work(stmt)
        left = unmasked(stmt)
        if left is None or left is not stmt and isinstance(left, Fill):
            return Work(0)
        exchanges = isinstance(left, Reduce) and left.src.buffer.storage in divided
        cost = thread_work(left if left is stmt else without_unused_bindings(left))  # such as that of the mask
        return with_exchange(cost) if exchanges else cost

    consumers = threads // WARPGROUP_THREADS
    values = _values(body, launch, loop, consumers)
    registers, one_stage = (
        registers_for_tiles(consumers, reordered_accesses=_threads_access_memory(body), stages=stages)
        for stages in (MAX_STAGES, 1)
    )
    more = one_stage - registers
    together = _readers(body, inside) if schedule.stages < _MIN_CROSSING_VERSIONS else ()

    def found(computed: frozenset[Buffer]) -> LoopSchedule:
        graph = loop_graph(body, work, dict.fromkeys(computed, VERSIONS), _waits)
        graph = dataclasses.replace(
            graph, values=values, registers=registers, one_stage_registers=more, together=together
        )
        return LoopSchedule(prepared, operands, body, graph, modulo_schedule(graph), computed=computed)

    best = found(frozenset())
    computed = computed_tiles(body, loop, launch, runs) if double else frozenset()
    if computed and not best.applies:
        doubled = found(computed)
        best = doubled if doubled.applies else best
    if saved is not None:
        if reason := _violation(body, best.graph, saved):
            return reason
        cycles = cycles_of(best.graph, saved.stage, saved.sequence)
        best = dataclasses.replace(best, schedule=ModuloSchedule(saved.stage, saved.sequence, cycles), required=True)
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
        return f"it has {len(placement.stage)} statements there, but {count} here"
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


def _threads_access_memory(body: LoopBody) -> bool:
    """Whether statements other than gemms access more than registers."""
    return any(
        storage.scope in (Scope.GLOBAL, Scope.SHARED) and not isinstance(body.statements[number], Gemm)
        for storage, touching in body.storages.items()
        for number, _, _ in touching
    )


def _values(body: LoopBody, launch: Launch, loop: For, consumers: int) -> tuple[Value, ...]:
    """The register values of a loop's body, as fragments of `consumers` warpgroups."""
    outside = accessed_outside(loop, launch)
    values = []
    for storage, touching in body.storages.items():
        if storage.scope is Scope.FRAGMENT:
            touches = tuple(dict.fromkeys(number for number, _, _ in touching))
            carried = storage in outside or storage not in overwritten(body.statements[touches[0]])
            values.append(Value(tile_registers(storage, consumers), touches, carried))
    return tuple(values)


def _prepared(loop: For, launch: Launch, *, separate: bool) -> tuple[tuple[Buffer, ...], For]:
    """The loop with parallel loops distributed, sums rescaled rarely and operands converted, and its new fragments.

    Args:
        loop: The loop.
        launch: Its launch.
        separate: Whether parallel loops that compute operands leave their conversion to statements of their own.
    """
    operands: list[Buffer] = []
    body: list[Stmt] = []
    gemms = [stmt for stmt in walk(loop) if separate and isinstance(stmt, Gemm)]
    multiplied = {side.buffer for gemm in gemms for side in (gemm.a, gemm.b)}
    for stmt in flat_statements(loop.body):
        if isinstance(stmt, ParallelLoop):
            for part in distributed(stmt):
                body += with_separate_conversions(part, multiplied, operands)
        elif isinstance(stmt, Gemm):
            body += _with_converted_operands(stmt, operands)
        else:
            body.append(stmt)
    inside = set(walk(loop))
    body = with_rare_rescaling(body, (s for s in walk(launch.body) if s not in inside))
    return tuple(operands), dataclasses.replace(loop, body=Seq(tuple(body), loc=loop.body.loc))


def _with_converted_operands(gemm: Gemm, operands: list[Buffer]) -> list[Stmt]:
    """A gemm after the copies that convert its operands, whose fragments are added to `operands`."""
    copies: list[Stmt] = []
    a, b = (converted_operand(gemm, side) for side in (0, 1))
    for old, new in ((gemm.a, a), (gemm.b, b)):
        if new is not old:
            operands.append(new.buffer)
            copies.append(Copy(old, new, loc=gemm.loc))
    return [*copies, dataclasses.replace(gemm, a=a, b=b) if copies else gemm]


def consumer_body(loop: For, load_groups: Sequence[LoadGroup]) -> LoopBody:
    """The body of a loop without the loads of the producer and the allocations of their tiles."""
    copies = {copy for group in load_groups for copy in group.copies}
    tiles = {copy.dst.buffer for copy in copies}
    left = tuple(
        each
        for each in flat_statements(loop.body)
        if not (isinstance(each, Copy) and each in copies or isinstance(each, Alloc) and each.buffer in tiles)
    )
    return LoopBody(dataclasses.replace(loop, body=Seq(left, loc=loop.body.loc)))


def asynchronous_gemms(body: LoopBody, capabilities: TargetCapabilities, threads: int) -> frozenset[Stmt]:
    """The gemms of a body that `threads` threads can leave in flight: none of their operands is converted."""
    return frozenset(
        stmt
        for stmt in body.statements
        if isinstance(stmt, Gemm)
        and stmt.operands == (stmt.a.dtype, stmt.b.dtype)
        and stmt.c.buffer.scope is Scope.FRAGMENT
        and not capabilities.wgmma_refusal(stmt, threads)
    )


def _is_allocated_across(body: LoopBody) -> bool:
    """Whether the loop allocates anything but scalars of one statement."""
    return any(len({number for number, _, _ in body.storages.get(b.storage, ())}) > 1 for b in body.allocated)
