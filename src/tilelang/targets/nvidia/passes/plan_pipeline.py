"""Assigns stage and order to the statements of pipelined loops, and decides which loops stay serial.

Takes a tile-level function whose operators have their lowerings; gives one in which every loop that is still
`PIPELINED` has a stage and an order for each of its effectful statements, and all others are serial, with the reason
among the notes of the launch. Invariant: running the statements of iteration i at time i + stage, those of one time in
their order, gives the sequential result if each buffer of `version_counts` has as many versions as given there.

By default, asynchronous copies into shared memory run `num_stages - 1` iterations ahead, where only later statements
of the loop read their tiles. Where an iteration begins by copying all these tiles to registers, the copies follow these
reads, `num_stages` iterations ahead in as many versions. The same holds where each such tile is read by some gemms of
an iteration and not by others: each copy stands after the last reader of its tile, which is refilled while the other
gemms run. Indices that copies load into registers, such as those of rows, are loaded one iteration before the copies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilelang.analysis.accesses import accesses
from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.analysis.thread_accesses import transfers_ownership
from tilelang.arith.domain import Domain, of_function
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import (
    Alloc,
    CallStmt,
    For,
    ForKind,
    Launch,
    ParallelLoop,
    PipelineSpec,
    Seq,
    Stmt,
)
from tilelang.ir.visit import Rewriter, jumps, walk
from tilelang.isa.instruction import Instruction
from tilelang.lowering import by_loop
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.schedule.loop_body import LoopBody, Touching
from tilelang.targets.nvidia.passes.async_copies import is_asynchronous, only_zero_fill, target_of
from tilelang.targets.nvidia.passes.async_copy_loops import AsyncCopyLoops
from tilelang.targets.nvidia.passes.async_copy_placement import Placement, ahead, behind_readers
from tilelang.transforms.initial_values import with_initial_values_stored


def version_counts(body: LoopBody, placement: Placement) -> dict[Buffer, int]:
    """The number of versions of each buffer that statements of several stages use."""
    versions = {}
    for storage, touching in body.storages.items():
        stages = {placement.stage[number] for number, _, _ in touching}
        if len(stages) > 1 and storage.scope is Scope.SHARED and not _keeps_order(touching, placement):
            versions[storage] = _distance(touching, placement)
    return versions


def _distance(touching: Sequence[Touching], placement: Placement) -> int:
    """After how many iterations a storage may be reused, with all accesses of the earlier iteration done."""
    stage, order = placement.stage, placement.order
    return max(
        stage[n] - stage[m] + (order[n] >= order[m])
        for n, _, first_writes in touching
        for m, _, second_writes in touching
        if first_writes or second_writes
    )

def is_filled_behind_readers(touching: Sequence[Touching], placement: Placement) -> bool:
    """Whether a tile is filled after its last reader of the same time."""
    stages = {placement.stage[number] for number, _, _ in touching}
    filled = [placement.order[n] for n, _, _ in touching if placement.stage[n] == min(stages)]
    read = [placement.order[n] for n, _, _ in touching if placement.stage[n] == max(stages)]
    return len(stages) == 2 and min(filled) > max(read)


def _keeps_order(touching: Sequence[Touching], placement: Placement) -> bool:
    """Whether accesses to one storage keep their order without further versions of it."""
    stage, order = placement.stage, placement.order
    for n, _, first_writes in touching:
        for m, _, second_writes in touching:
            if n >= m or not (first_writes or second_writes):
                continue
            within = (stage[n], order[n]) < (stage[m], order[m])
            into_next = (stage[m], order[m]) < (stage[n] + 1, order[n])
            if not (within and into_next):
                return False
    return True


# -- legality ---------------------------------------------------------------------------------------------------


@record(slots=True)
class Violation:
    """Why a placement is illegal.

    Attributes:
        reason: In a few words.
        statements: The statements that conflict; empty where it is the loop as a whole.
    """

    reason: str
    statements: frozenset[int] = frozenset()


def violation(body: LoopBody, placement: Placement, outside: Mapping[Buffer, str]) -> Violation | None:
    """The first violation of a dependence by a placement; None if it is legal.

    Args:
        body: The loop.
        placement: When its statements shall run.
        outside: Buffers whose accesses outside of the loop rule out versions, with the reason.
    """
    for storage, touching in body.storages.items():
        stages = {placement.stage[number] for number, _, _ in touching}
        if len(stages) < 2 and _in_order(touching, placement):
            continue
        found = _memory_violation(body, placement, storage, touching, outside)
        if found is not None:
            return found
    last = [n for n, stage in enumerate(placement.stage) if stage == placement.last]
    in_place = frozenset(last) if sorted(last, key=lambda n: placement.order[n]) == last else frozenset()
    for number, stmt in enumerate(body.statements):
        for name in body.names(stmt):
            if number not in in_place and body.is_volatile(name):
                return Violation(f"the memory that '{name.name}' reads is written in the loop", frozenset((number,)))
        for var in body.results(stmt):
            users = {m for m, other in enumerate(body.statements) if m != number and body.uses(other, var)}
            if users and not users | {number} <= in_place:
                return Violation(f"'{var.name}' would be needed at another time", frozenset(users | {number}))
    return None


def _in_order(touching: Sequence[Touching], placement: Placement) -> bool:
    return _keeps_order(touching, placement) or not any(write for _, _, write in touching)


def _memory_violation(
    body: LoopBody,
    placement: Placement,
    storage: Buffer,
    touching: Sequence[Touching],
    outside: Mapping[Buffer, str],
) -> Violation | None:
    if not any(write for _, _, write in touching):
        return None
    statements = frozenset(number for number, _, _ in touching)
    if _keeps_order(touching, placement) and storage not in body.allocated:
        return None
    if storage.scope is not Scope.SHARED:
        return Violation(f"'{storage.name}' is written in one iteration while another one still uses it", statements)
    first = body.fills_first(storage)
    if first is None:
        return Violation(f"'{storage.name}' is not filled as a whole before its other uses in an iteration", statements)
    time = (placement.stage[first], placement.order[first])
    for number in sorted(statements - {first}):
        if (placement.stage[number], placement.order[number]) < time:
            return Violation(f"'{storage.name}' would be used before it is filled", statements)
    rest = [t for t in touching if t[0] != first]
    if len({placement.stage[n] for n, _, _ in rest}) > 1 or not _keeps_order_within(rest, placement):
        if any(write for _, _, write in rest):
            return Violation(f"'{storage.name}' is written in several stages", statements)
    if storage in outside:
        return Violation(outside[storage], statements)
    return None


def _keeps_order_within(touching: Sequence[Touching], placement: Placement) -> bool:
    """Whether accesses of one iteration keep their order."""
    time = [(placement.stage[n], placement.order[n]) for n, _, _ in touching]
    return time == sorted(time)


def _loop_violation(loop: For) -> str:
    """Why the loop as a whole cannot be pipelined; empty if it can."""
    if jumps(loop.body):
        return "it has a break or continue in the middle of an iteration"
    for stmt in walk(loop.body):
        routine = stmt.routine if isinstance(stmt, CallStmt) else None
        if isinstance(routine, Instruction) and routine.async_unit is not None:
            return f"it waits for asynchronous work by hand ({routine.name})"
        if transfers_ownership(stmt):
            return "it synchronizes with other threads itself"
    return ""


# -- the plan ----------------------------------------------------------------------------------------------------


def plan_loop(loop: For, outside: Mapping[Buffer, str]) -> tuple[Placement | None, str]:
    """The placement of a pipelined loop, or None and why it stays serial."""
    spec = loop.pipeline or PipelineSpec()
    whole = _loop_violation(loop)
    if whole:
        return None, whole
    body = LoopBody(loop)
    by_hand = _by_hand(spec, len(body.statements))
    if by_hand is not None:
        found = violation(body, by_hand, outside)
        return (None, found.reason) if found else (by_hand, "") if by_hand.last else (None, "all stages are equal")
    return _automatic(body, spec.num_stages, outside)


def _by_hand(spec: PipelineSpec, count: int) -> Placement | None:
    """The user's placement, if it covers every statement."""
    if spec.order is None and spec.stage is None:
        return None
    order = spec.order or tuple(range(count))
    stage = spec.stage or (0,) * count
    if len(order) != count or len(stage) != count or min((*order, *stage), default=0) < 0:
        return None  # negative entries are an older notation: the compiler assigns stages
    low = min(stage, default=0)
    return Placement(tuple(s - low for s in stage), order)


def _automatic(body: LoopBody, stages: int, outside: Mapping[Buffer, str]) -> tuple[Placement | None, str]:
    """Copies ahead, all else in the last stage; copies that cannot legally run ahead stay there, too."""
    producers = [
        n for n, s in enumerate(body.statements) if is_asynchronous(s) and body.fills_first(target_of(s)) == n
    ]
    reason = "no copy into a shared buffer that it fills as a whole is asynchronous"
    while producers:
        readers = _readers(body, producers)
        if stages < (1 if readers else 2):
            return None, f"num_stages={stages} keeps one version of each buffer"
        index_loads = _index_loads(body, producers)
        placement = _behind_readers(producers, body, stages) if stages > 1 and not readers and not index_loads else None
        placement = placement or ahead(producers, readers, index_loads, len(body.statements), stages)
        found = violation(body, placement, outside)
        if found is None:
            return placement, ""
        reason = found.reason
        left = [n for n in producers if n not in found.statements]
        producers = left if len(left) < len(producers) else []
    return None, reason


def _readers(body: LoopBody, producers: Sequence[int]) -> list[int]:
    """The statements at the beginning of an iteration, if they copy all tiles of these copies to registers."""
    targets = {target_of(body.statements[n]) for n in producers}
    users = {n for target in targets for n, _, _ in body.storages[target]} - set(producers)
    first = [n for n in range(max(users, default=-1) + 1) if n not in producers]
    return first if all(_copies_to_registers(body.statements[n]) for n in first) else []


def _behind_readers(producers: Sequence[int], body: LoopBody, stages: int) -> Placement | None:
    """Copies after the last readers of their tiles, if other gemms run meanwhile."""
    gemms = {n for n, stmt in enumerate(body.statements) if isinstance(stmt, Gemm)}
    touching = {n: body.storages[target_of(body.statements[n])] for n in producers}
    users = {number: {n for n, _, _ in touching[number]} - {number} for number in producers}
    return behind_readers(users, gemms, len(body.statements), stages)


def _index_loads(body: LoopBody, producers: Sequence[int]) -> list[int]:
    """The statements that only fill fragments that nothing but these copies reads, such as indices of rows."""
    found = []
    for number, stmt in enumerate(body.statements):
        written = {storage for storage, _, write in body.touched[number] if write}
        users = {n for storage in written for n, _, _ in body.storages[storage]}
        alone = users - {number}
        if isinstance(stmt, Copy | ParallelLoop) and alone and alone <= set(producers):
            if all(s.scope is Scope.FRAGMENT and s not in body.allocated for s in written):
                found.append(number)
    return found


def _copies_to_registers(stmt: Stmt) -> bool:
    """Whether a statement copies a tile from shared memory to registers."""
    return isinstance(stmt, Copy) and (stmt.src.buffer.scope, stmt.dst.buffer.scope) == (Scope.SHARED, Scope.FRAGMENT)


def _runs_ahead(body: LoopBody, number: int, placement: Placement) -> bool:
    """Whether all uses of a copy's tile are in later stages."""
    users = [n for n, _, _ in body.storages[target_of(body.statements[number])] if n != number]
    return bool(users) and min(placement.stage[n] for n in users) > placement.stage[number]


# -- the pass ----------------------------------------------------------------------------------------------------


def _outside_uses(launch: Launch) -> dict[For, dict[Buffer, str]]:
    """For each pipelined loop, the buffers that cannot have versions since they are used outside of it, too."""
    pipelined = [s for s in walk(launch.body) if isinstance(s, For) and s.kind is ForKind.PIPELINED]
    bodies = {loop: LoopBody(loop) for loop in pipelined}
    inside = {loop: {s for s in walk(loop.body) if isinstance(s, For)} for loop in pipelined}
    result: dict[For, dict[Buffer, str]] = {loop: {} for loop in pipelined}
    views = {s.buffer.view_of.storage for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.view_of}
    for access in accesses(launch.body).all:
        around = access.context.loops()
        storage = access.buffer.storage
        if storage.scope is not Scope.SHARED:
            continue
        for loop in pipelined:
            if storage in views:
                result[loop][storage] = f"'{storage.name}' has views"
            elif loop not in around and not access.write:
                others = [o for o in around if isinstance(o, For) and o in bodies and loop not in inside[o]]
                if not any(bodies[other].fills_first(storage) is not None for other in others):
                    result[loop][storage] = f"'{storage.name}' is also read outside of the loop"
    return result


class _Plan(Rewriter):
    """Plans the loops of one launch."""

    def __init__(self, launch: Launch, domain: Domain, context: PassContext) -> None:
        self._outside = _outside_uses(launch)
        self._pipelined = 0  # loops around that run ahead
        self._copy_loops = AsyncCopyLoops(launch, domain, context)
        self.notes = self._copy_loops.notes

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is ForKind.PIPELINED:
            return self._loop(node)
        if isinstance(node, Copy) and is_asynchronous(node) and self._pipelined:
            # a wait for it would stop all that run ahead
            return dataclasses.replace(node, choice=by_loop.COPY.name, plan=ACCEPTED)
        return self.rebuild_stmt(node)

    def _loop(self, node: For) -> Stmt:
        outside = self._outside[node]
        node, tables, placement, reason = self._planned(with_initial_values_stored(node), outside)
        if placement is None:
            wanted = node.pipeline is not None and (node.pipeline.num_stages > 1 or node.pipeline.stage is not None)
            if wanted:
                self.notes.append(Note(f"T.Pipelined: the loop stays serial: {reason}", node.loc))
            serial = self.visit(node.body) or Seq((), loc=node.loc)
            return dataclasses.replace(node, kind=ForKind.SERIAL, pipeline=None, body=serial)
        body = LoopBody(node)
        ahead = {s for n, s in enumerate(body.statements) if is_asynchronous(s) and _runs_ahead(body, n, placement)}
        self._pipelined += 1
        kept = self._with_async(node.body, ahead)
        self._pipelined -= 1
        stages = node.pipeline.num_stages if node.pipeline is not None else 0
        spec = PipelineSpec(stages, placement.order, placement.stage)
        planned = dataclasses.replace(node, body=kept, pipeline=spec)
        return Seq((*tables, planned), loc=node.loc) if tables else planned

    def _planned(
        self, node: For, outside: Mapping[Buffer, str]
    ) -> tuple[For, list[Alloc], Placement | None, str]:
        """The loop with the parallel loops marked that run ahead, the tables for them, and its placement."""
        refused: set[Stmt] = set()
        while True:
            marks = self._copy_loops.marked(node, refused)
            placement, reason = plan_loop(marks.loop, outside)
            body = LoopBody(marks.loop)
            numbers = {stmt: number for number, stmt in enumerate(body.statements)}
            failed = {
                original
                for made, original in marks.originals.items()
                if placement is None or not _runs_ahead(body, numbers[made], placement)
            }
            if not failed:
                return marks.loop, marks.tables, placement, reason
            refused |= failed

    def _with_async(self, stmt: Stmt, ahead: set[Stmt]) -> Stmt:
        """A loop's body in which only copies that run ahead stay asynchronous."""
        if isinstance(stmt, Seq):
            return Seq(tuple(self._with_async(s, ahead) for s in stmt.body), loc=stmt.loc)
        if stmt in ahead:
            return stmt
        return self.visit(stmt) or Seq((), loc=stmt.loc)


def _planned(launch: Launch, domain: Domain, context: PassContext) -> Launch:
    launch = only_zero_fill(launch)
    plan = _Plan(launch, domain, context)
    body = plan.visit(launch.body) or Seq((), loc=launch.loc)
    if body is launch.body:
        return launch
    notes = (*launch.plan.notes, *plan.notes)
    ahead = any(asynchronous_store(s) is not None for s in walk(body))
    return dataclasses.replace(
        launch, body=body, plan=dataclasses.replace(launch.plan, notes=notes, prefetch_loops=ahead)
    )


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    domain = of_function(func)
    return with_launches(func, lambda launch: _planned(launch, domain, context))


PASS = Pass(
    "plan_pipeline", _run, Level.TILE, Level.TILE,
    requires=(Property.LOWERINGS_CHOSEN, Property.OPERATORS_UNEXPANDED),
    establishes=(Property.STAGES_ASSIGNED,),
)
