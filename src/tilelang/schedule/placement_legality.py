"""When the statements of a pipelined loop may run at other times: dependences, and versions of shared buffers.

Takes a loop and a `Placement` of its statements, gives the number of versions of each buffer, or why the placement is
illegal. Invariant: running the statements of iteration i at time i + stage, those of one time in their order, gives the
sequential result if each buffer of `version_counts` has as many versions as given there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from tilelang.analysis.accesses import accesses
from tilelang.analysis.thread_accesses import transfers_ownership
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, Launch, PipelineSpec
from tilelang.ir.visit import jumps, walk
from tilelang.isa.instruction import Instruction
from tilelang.records import record
from tilelang.saved_schedule import Placement
from tilelang.schedule.async_copies import is_asynchronous
from tilelang.schedule.loop_body import LoopBody, StatementAccess
from tilelang.schedule.override_errors import statement_at
from tilelang.transforms.statement_places import by_hand


def version_counts(body: LoopBody, placement: Placement, most: int = 0) -> dict[Buffer, int]:
    """The number of versions of each buffer that statements of several stages use.

    Args:
        body: The loop.
        placement: When its statements run.
        most: Up to so many, tiles of asynchronous copies have a version for each iteration between their users and the
            copy: where it stands behind the users, the order needs one less, but with a barrier between them.
    """
    versions = {}
    for storage, touching in body.storages.items():
        stages = {placement.stage[number] for number, _, _ in touching}
        if len(stages) < 2 or storage.scope is not Scope.SHARED:
            continue
        if not _keeps_order(touching, placement):
            versions[storage] = _distance(touching, placement)
        first = body.fills_first(storage) if versions.get(storage, 1) < most else None
        if first is not None and is_asynchronous(body.statements[first]):
            versions[storage] = max(versions.get(storage, 1), min(most, max(stages) - min(stages) + 1))
    return versions


def _distance(touching: Sequence[StatementAccess], placement: Placement) -> int:
    """After how many iterations a storage may be reused, with all accesses of the earlier iteration done."""
    stage, order = placement.stage, placement.order
    return max(
        stage[n] - stage[m] + (order[n] >= order[m])
        for n, _, first_writes in touching
        for m, _, second_writes in touching
        if first_writes or second_writes
    )


def _keeps_order(touching: Sequence[StatementAccess], placement: Placement) -> bool:
    """Whether accesses to one storage keep their order without further versions of it."""
    return _reordered(touching, placement) is None


def _reordered(touching: Sequence[StatementAccess], placement: Placement) -> tuple[int, int] | None:
    """Two statements, of which the first writes, that do not keep the order of their accesses to one storage."""
    stage, order = placement.stage, placement.order
    for n, _, first_writes in touching:
        for m, _, second_writes in touching:
            if n >= m or not (first_writes or second_writes):
                continue
            within = (stage[n], order[n]) < (stage[m], order[m])
            into_next = (stage[m], order[m]) < (stage[n] + 1, order[n])
            if not (within and into_next):
                return (n, m) if first_writes else (m, n)
    return None


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


def violation(
    body: LoopBody, placement: Placement, outside: Mapping[Buffer, str], most: int = 0
) -> Violation | None:
    """The first violation of a dependence by a placement; None if it is legal.

    Args:
        body: The loop.
        placement: When its statements shall run.
        outside: Buffers whose accesses outside of the loop rule out versions, with the reason.
        most: See `version_counts`.
    """
    versioned = version_counts(body, placement, most).keys()
    for storage, touching in body.storages.items():
        stages = {placement.stage[number] for number, _, _ in touching}
        if len(stages) < 2 and _in_order(touching, placement):
            continue
        found = _memory_violation(body, placement, storage, touching, outside, versioned)
        if found is not None:
            return found
    last = [n for n, stage in enumerate(placement.stage) if stage == placement.last]
    in_place = frozenset(last) if sorted(last, key=lambda n: placement.order[n]) == last else frozenset()
    for number, stmt in enumerate(body.statements):
        for name in body.bound_variables(stmt):
            if number not in in_place and body.is_volatile(name):
                return Violation(f"the memory that '{name.name}' reads is written in the loop", frozenset((number,)))
        for var in body.results(stmt):
            users = {m for m, other in enumerate(body.statements) if m != number and body.uses(other, var)}
            if users and not users | {number} <= in_place:
                return Violation(f"'{var.name}' would be needed at another time", frozenset(users | {number}))
    return None


def _in_order(touching: Sequence[StatementAccess], placement: Placement) -> bool:
    return _keeps_order(touching, placement) or not any(write for _, _, write in touching)


def _memory_violation(
    body: LoopBody,
    placement: Placement,
    storage: Buffer,
    touching: Sequence[StatementAccess],
    outside: Mapping[Buffer, str],
    versioned: Set[Buffer],
) -> Violation | None:
    if not any(write for _, _, write in touching):
        return None
    statements = frozenset(number for number, _, _ in touching)
    if _keeps_order(touching, placement) and storage not in body.allocated and storage not in versioned:
        return None
    if storage.scope is not Scope.SHARED:
        writer, user = _reordered(touching, placement) or (min(statements), max(statements))
        writes, uses = (statement_at(body.statements[number]) for number in (writer, user))
        reason = f"{writes} writes '{storage.name}', which {uses} still uses in another iteration"
        return Violation(reason, statements)
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


def _keeps_order_within(touching: Sequence[StatementAccess], placement: Placement) -> bool:
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


def placement_override(
    loop: For, outside: Mapping[Buffer, str], given: Placement | None = None, most: int = 0
) -> tuple[Placement | None, str] | None:
    """The placement that the user sets, or why the loop can have none; None if the compiler may choose.

    Args:
        loop: A pipelined loop.
        outside: Buffers whose accesses outside of the loop rule out versions, with the reason.
        given: A placement that replaces that of the loop, if it has as many statements.
        most: See `version_counts`.
    """
    whole = _loop_violation(loop)
    if whole:
        return None, whole
    body = LoopBody(loop)
    fitting = given is not None and len(given.stage) == len(body.statements)
    placement = given if fitting else by_hand(loop.pipeline or PipelineSpec(), len(body.statements))
    if placement is None:
        return None
    found = violation(body, placement, outside, most)
    return (None, found.reason) if found else (placement, "") if placement.last else (None, "all stages are equal")


def runs_ahead(body: LoopBody, number: int, tile: Buffer, placement: Placement) -> bool:
    """Whether all other uses of the tile that a statement fills are in later stages."""
    users = [n for n, _, _ in body.storages[tile] if n != number]
    return bool(users) and min(placement.stage[n] for n in users) > placement.stage[number]


def outside_uses(launch: Launch) -> dict[For, dict[Buffer, str]]:
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
