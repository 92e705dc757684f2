"""The data-flow state of barrier insertion: accesses that no barrier has separated from later ones yet.

Transfer functions for accesses, commits, waits and barriers; states are immutable. Invariant: an asynchronous access
that may be in flight or complete is pending as both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilelang.analysis.thread_accesses import ThreadAccess
from tilelang.ir.expr import Expr, int_const
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.isa.instruction import AsyncUnit, Effect, Instruction
from tilelang.records import record


@record(slots=True)
class Pending:
    """An access after which no barrier has been executed.

    Attributes:
        access: The access.
        commits: Groups committed since an asynchronous access was started; None for any other access, and for an
            asynchronous one that a wait has made complete for its own thread.
    """

    access: ThreadAccess
    commits: int | None = None


State = Mapping[tuple[int, int | None], Pending]  # by access and number of commits


def keyed(pending: Iterable[Pending]) -> dict[tuple[int, int | None], Pending]:
    """The state that consists of some pending accesses."""
    return {(id(p.access), p.commits): p for p in pending}


def issued(access: ThreadAccess) -> list[Pending]:
    """The pending entries of an access just issued; both where it is unknown whether a wait covers it."""
    if access.async_unit is not None and access.async_unit.reads_asynchronously:
        return [Pending(access), Pending(access, 0)]
    return [Pending(access, 0 if access.asynchronous else None)]


def issued_by_some(access: ThreadAccess, oldest: int) -> list[Pending]:
    """The pending entries of an asynchronous access of some threads, which may have committed it and waited for it.

    Args:
        access: The access.
        oldest: The number of commits that represents itself and all larger ones.
    """
    unit = access.async_unit
    return [Pending(access), Pending(access, oldest if unit is not None and unit.per_thread else 0)]


def committed(state: State, oldest: int) -> State:
    """After a commit of every thread; `oldest` commits represent all larger numbers, too."""
    return keyed(
        Pending(p.access, min(p.commits + 1, oldest)) if _is_counted(p) and p.commits is not None else p
        for p in state.values()
    )


def committed_by_all(state: State, oldest: int, unit: AsyncUnit | None) -> State:
    """After a commit of every thread to a unit that reads asynchronously."""
    issued_to = {key for key, p in state.items() if p.commits is not None and p.access.async_unit is unit}
    return keyed(Pending(p.access, oldest) if key in issued_to else p for key, p in state.items())


def waited(state: State, left: int) -> State:
    """After a wait of every thread for all but the `left` latest groups."""
    return keyed(Pending(p.access) if _is_counted(p) and (p.commits or 0) > left else p for p in state.values())


def waited_by_some(state: State, unit: AsyncUnit | None) -> State:
    """After a wait by some threads, or for an unknown number of groups: accesses may be complete or not."""
    late = [p for p in state.values() if p.commits is not None and p.access.async_unit is unit]
    return {**state, **keyed(Pending(p.access) for p in late)} if late else state


def waited_by_all(state: State, unit: AsyncUnit | None) -> State:
    """After a wait of every thread for all groups: what these read has been read, all else may be complete or not."""
    read = {key for key, p in state.items() if p.commits and p.access.async_unit is unit and not p.access.write}
    return {key: p for key, p in waited_by_some(state, unit).items() if key not in read}


def after_barrier(state: State) -> State:
    """After a barrier: only asynchronous accesses in flight remain pending."""
    return {key: p for key, p in state.items() if p.commits is not None}


def merged(states: Iterable[State | None]) -> State | None:
    """The join of the states at the end of several paths; None if none is reachable."""
    reached = [state for state in states if state is not None]
    return {key: p for state in reached for key, p in state.items()} if reached else None


def groups_pending(stmt: Stmt) -> int | None:
    """The number of groups that a wait leaves in flight; None if it is no wait, or the number is unknown."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    if not isinstance(routine, Instruction) or Effect.WAIT not in routine.effect or not isinstance(stmt, CallStmt):
        return None
    if routine.pending is not None:
        return routine.pending
    return int_const(stmt.args[0]) if isinstance(stmt.args[0], Expr) else None


def _is_counted(pending: Pending) -> bool:
    """Whether an access is in flight and tracked by commits and waits of its own thread."""
    unit = pending.access.async_unit
    return pending.commits is not None and unit is not None and unit.per_thread
