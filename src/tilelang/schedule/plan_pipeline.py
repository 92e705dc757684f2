"""Assigns stage and order to the statements of pipelined loops, and decides which loops stay serial.

Takes a tile-level function whose operators have their lowerings, and the `LoopPlanner` of a target; gives a function in
which every loop that is still `PIPELINED` has a stage and an order for each of its effectful statements, and all others
are serial, with the reason among the notes of the launch. Invariant: placements are legal by
`schedule.placement_legality`, and those of a saved schedule are kept or refused.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar

from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.arith.domain import Domain, of_function
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, For, ForKind, Launch, PipelineSpec, Seq, Stmt
from tilelang.ir.timeline import Timeline
from tilelang.ir.visit import Rewriter, walk
from tilelang.ops.copy import Copy
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.saved_schedule import Placement
from tilelang.schedule.async_copies import is_asynchronous, synchronous, target_of
from tilelang.schedule.explain import timeline
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import Work, loop_graph
from tilelang.schedule.modulo import ModuloSchedule
from tilelang.schedule.override_errors import impossible_placement, wrong_number_of_loops
from tilelang.schedule.placement_legality import outside_uses, runs_ahead, version_counts
from tilelang.schedule.statement_work import COPY_WORK
from tilelang.transforms.initial_values import with_initial_values_stored


@record
class PlannedLoop:
    """A loop as it is pipelined.

    Attributes:
        loop: The loop, whose copies may have become loads and stores.
        tables: What is to be allocated before it.
        placement: When its statements run; None if it stays serial.
        reason: Why it does.
        loads: Loads to registers that run ahead.
        versions: Up to so many versions of tiles save barriers; see `version_counts`.
    """

    loop: For
    tables: tuple[Alloc, ...] = ()
    placement: Placement | None = None
    reason: str = ""
    loads: frozenset[Stmt] = frozenset()
    versions: int = 0


class LoopPlanner(abc.ABC):
    """What a target decides about the pipelined loops of one launch.

    Attributes:
        awaits_other_copies: Whether asynchronous copies outside of loops that run ahead stay so, and are waited for.
        notes: On loops, beside those on loops that stay serial.
    """

    awaits_other_copies: ClassVar[bool] = False

    def __init__(self) -> None:
        self.notes: list[Note] = []

    @abc.abstractmethod
    def plan(self, loop: For, outside: Mapping[Buffer, str], given: Placement | None) -> PlannedLoop:
        """The plan for a loop.

        Args:
            loop: A pipelined loop.
            outside: Buffers whose accesses outside of the loop rule out versions, with the reason.
            given: The placement of a saved schedule, to be taken if the loop has as many statements; None leaves it to
                the user's `T.Pipelined` and to the target.
        """

    def with_fragments_ahead(self, planned: PlannedLoop, outside: Mapping[Buffer, str]) -> PlannedLoop:
        """The loop with fragments loaded ahead of the gemms of an iteration, if the target does so.

        Args:
            planned: The plan for a loop with a placement.
            outside: As above.
        """
        return planned

    def work(self, stmt: Stmt) -> Work | None:
        """What a statement costs, for `kernel.explain()`; None if that is not known."""
        return None


class _Plan(Rewriter):
    """Plans the loops of one launch.

    Attributes:
        notes: Why loops stay serial.
        placements: The placement of each loop; None for those that stay serial.
        timelines: The timelines of loops whose copies run ahead.
    """

    def __init__(self, launch: Launch, planner: LoopPlanner, given: Sequence[Placement | None] | None) -> None:
        self._planner = planner
        self._outside = outside_uses(launch)
        self._given = dict(zip(self._outside, given, strict=True)) if given is not None else None
        self.placements: dict[For, Placement | None] = dict.fromkeys(self._outside)
        self.timelines: list[Timeline] = []
        self._pipelined = 0  # loops around that run ahead
        self._ahead: set[Stmt] = set()  # copies that do
        self.notes = planner.notes

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is ForKind.PIPELINED:
            return self._loop(node)
        if isinstance(node, Copy) and is_asynchronous(node) and node not in self._ahead:
            # in a loop that runs ahead, a wait for it would stop all copies that do
            keeps = self._planner.awaits_other_copies and not self._pipelined
            return node if keeps else synchronous(node)
        return self.rebuild_stmt(node)

    def _loop(self, original: For) -> Stmt:
        planned = self._planned(original)
        node, placement = planned.loop, planned.placement
        self.placements[original] = placement
        if placement is None:
            spec = node.pipeline or PipelineSpec()
            wanted = spec.num_stages > 1 or (spec.order, spec.stage) != (None, None)
            if wanted and planned.reason:
                self.notes.append(Note(f"T.Pipelined: the loop stays serial: {planned.reason}", node.loc))
            serial = self.visit(node.body) or Seq((), loc=node.loc)
            return dataclasses.replace(node, kind=ForKind.SERIAL, pipeline=None, body=serial)
        body = LoopBody(node)
        copies = ((n, s) for n, s in enumerate(body.statements) if is_asynchronous(s))
        ahead = {s for n, s in copies if runs_ahead(body, n, target_of(s), placement)}
        self.timelines += self._timeline(body, placement, planned.versions, ahead or planned.loads)
        self._ahead |= ahead
        planned = self._planner.with_fragments_ahead(planned, self._outside[original])
        node, placement = planned.loop, planned.placement or placement
        self._pipelined += 1
        kept = self.visit(node.body) or Seq((), loc=node.loc)
        self._pipelined -= 1
        spec = PipelineSpec(planned.versions, placement.order, placement.stage)
        made = dataclasses.replace(node, body=kept, pipeline=spec)
        return Seq((*planned.tables, made), loc=node.loc) if planned.tables else made

    def _timeline(
        self, body: LoopBody, placement: Placement, versions: int, ahead: AbstractSet[Stmt]
    ) -> list[Timeline]:
        """The timeline of a loop some of whose copies run ahead, if the costs of the others are known."""
        work = {stmt: COPY_WORK if stmt in ahead else self._planner.work(stmt) for stmt in body.statements}
        known = {stmt: cost for stmt, cost in work.items() if cost is not None}
        if not ahead or len(known) < len(work):
            return []
        graph = loop_graph(body, known.__getitem__, version_counts(body, placement, versions))
        schedule = ModuloSchedule(placement.stage, placement.sequence, graph.warp_cycles)
        labels = [f"line {s.loc.line}" if s.loc.line else type(s).__name__ for s in body.statements]
        return [timeline(graph, schedule, labels, body.loop.loc)]

    def _planned(self, original: For) -> PlannedLoop:
        """The plan for a loop, with the placement that a saved schedule has for it."""
        loop, outside = with_initial_values_stored(original), self._outside[original]
        if self._given is None:
            return self._planner.plan(loop, outside, None)
        given = self._given[original]
        if given is None:
            return PlannedLoop(loop)
        planned = self._planner.plan(loop, outside, given)
        if planned.placement == given:
            return planned
        reason = planned.reason
        if planned.placement is not None:
            reason = f"the loop has {len(planned.placement.stage)} statements, not {len(given.stage)}"
        chosen = self._planner.plan(loop, outside, None).placement
        nearest = f"; {chosen} is the nearest that can be" if chosen is not None else ""
        raise impossible_placement(original, given, reason + nearest)


def _planned(launch: Launch, number: int, planner: LoopPlanner, context: PassContext) -> Launch:
    specialized = launch.plan.schedule is not None
    given = None if specialized else context.options.launch_schedule(number).loops
    loops = sum(isinstance(stmt, For) and stmt.kind is ForKind.PIPELINED for stmt in walk(launch.body))
    if given is not None and len(given) != loops:
        raise wrong_number_of_loops(launch, len(given), loops)
    plan = _Plan(launch, planner, given)
    body = plan.visit(launch.body) or Seq((), loc=launch.loc)
    if body is launch.body:
        return launch
    made = dataclasses.replace(
        launch.plan,
        notes=(*launch.plan.notes, *plan.notes),
        placements=launch.plan.placements if specialized else tuple(plan.placements.values()),
        timelines=(*launch.plan.timelines, *plan.timelines),
        prefetch_loops=any(asynchronous_store(s) is not None for s in walk(body)),
    )
    return dataclasses.replace(launch, body=body, plan=made)


def plan_pipeline(
    planner: Callable[[Launch, Domain, PassContext], LoopPlanner],
    check: Callable[[PrimFunc, PassContext], None] = lambda func, context: None,
) -> Pass:
    """The pass of a target.

    Args:
        planner: Makes the planner of a launch.
        check: Raises where a saved schedule has more than placements, and the target cannot keep it.
    """

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        check(func, context)
        domain, numbers = of_function(func), itertools.count()

        def step(launch: Launch) -> Launch:
            if launch.plan.generated:
                return launch
            return _planned(launch, next(numbers), planner(launch, domain, context), context)

        return with_launches(func, step)

    return Pass(
        "plan_pipeline", run, Level.TILE, Level.TILE,
        requires=(Property.LOWERINGS_CHOSEN, Property.OPERATORS_UNEXPANDED),
        establishes=(Property.STAGES_ASSIGNED,),
    )  # fmt: skip
