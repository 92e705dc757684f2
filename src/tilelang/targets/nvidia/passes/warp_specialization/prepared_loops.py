"""Loops of consumers that are prepared for software pipelining, each with its schedule, and the launch with them.

Takes what `loop_schedules` found for the loops of a launch; gives the launch in which they stand in the place of the
original ones, with the tiles that they need. The program computes the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.ir.stmt import Alloc, For, Launch, Seq, Stmt
from tilelang.ir.timeline import Timeline
from tilelang.ir.visit import Rewriter, accessed_buffers, walk, without
from tilelang.records import record
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.computed_tiles import doubled_tiles
from tilelang.schedule.explain import ProducerLoad, program_order, timeline
from tilelang.schedule.live_registers import live_registers
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import LoopGraph
from tilelang.schedule.modulo import MIN_GAIN, MIN_REORDER_GAIN, ModuloSchedule
from tilelang.schedule.software_pipeline import Speculation
from tilelang.targets.nvidia.passes.warp_specialization.speculative_softmax import SpeculativeLoop


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
        speculative: The loop with its speculative step, if it has one.
        loads: What the producer loads for it.
        partitions: Who runs it, as `partition_names` gives it.
    """

    loop: For
    operands: tuple[Buffer, ...]
    body: LoopBody
    graph: LoopGraph
    schedule: ModuloSchedule
    required: bool = False
    computed: frozenset[Buffer] = frozenset()
    speculative: SpeculativeLoop | None = None
    loads: tuple[ProducerLoad, ...] = ()
    partitions: tuple[str, ...] = ()

    @property
    def speculation(self) -> Speculation | None:
        """Where its speculative step is among the statements."""
        return None if self.speculative is None else self.speculative.numbered(self.body.statements)

    @property
    def doubled(self) -> dict[Buffer, Buffer]:
        """The computed tiles that have two versions, with the buffers of both."""
        return doubled_tiles(self.body, self.schedule, self.computed)

    @property
    def applies(self) -> bool:
        """Whether the user asks for it, or it is better than the program's order with a wait after each gemm.

        Further stages must be worth their prologue and epilogue.
        """
        if self.schedule.in_flight:
            return True
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
        return timeline(self.graph, schedule, labels, self.loop.loc, self.loads, self.partitions)


def issues_in_order(schedules: Iterable[LoopSchedule], consumers: int, override: bool | None) -> bool:
    """Whether `consumers` warpgroups issue their gemms one after another: where each issues several at once.

    On an H200 attention gained up to 10 % with three warpgroups, and nothing with two, of which one computes while the
    other one issues in any case.
    """
    if consumers < 2 or not any(each.issues_together for each in schedules):
        return False
    return consumers > 2 if override is None else override


def with_prepared_loops(launch: Launch, schedules: Iterable[LoopSchedule]) -> Launch:
    """The launch with the prepared loops in the place of the original ones, and without tiles that these do not use."""
    prepared = {each.loop.var: each for each in schedules}
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
        allocations = [Alloc(each, loc=node.loc) for each in found.operands]
        if found.speculative is None:
            return Seq((*allocations, found.loop), loc=node.loc)
        return Seq((*allocations, *found.speculative.before, found.loop, *found.speculative.after), loc=node.loc)
