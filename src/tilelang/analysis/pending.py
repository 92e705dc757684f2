"""Accesses since which no barrier has separated the threads, and what barriers and waits make of them.

Takes what is pending, gives what is pending then; states are not changed in place. Invariant: an access that may be
under way, or may be complete, is pending as both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilelang.analysis.thread_accesses import Touch
from tilelang.ir.expr import Expr, int_const
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.isa.instruction import AsyncUnit, Effect, Instruction
from tilelang.records import record


@record(slots=True)
class Pending:
    """An access since which no barrier has separated the threads.

    Attributes:
        touch: The access.
        commits: Groups committed since an asynchronous access was started; None for any other access, and for an
            asynchronous one that a wait has made complete for its own thread.
    """

    touch: Touch
    commits: int | None = None


State = Mapping[tuple[int, int | None], Pending]  # by what and how old


def keyed(pending: Iterable[Pending]) -> dict[tuple[int, int | None], Pending]:
    """Each access once."""
    return {(id(p.touch), p.commits): p for p in pending}


def begun(touch: Touch, oldest: int) -> list[Pending]:
    """An access that has just been made, or will be: of which waits only some are known, both.

    Args:
        touch: The access.
        oldest: The number of commits that stands for itself and all larger ones.
    """
    if touch.async_unit is not None and touch.async_unit.reads_late:
        return [Pending(touch), Pending(touch, oldest)]
    return [Pending(touch, 0 if touch.asynchronous else None)]


def committed(state: State, oldest: int) -> State:
    """After work that every thread waits for has been closed to a group; `oldest` commits stand for more, too."""
    return keyed(
        Pending(p.touch, min(p.commits + 1, oldest)) if _is_counted(p) and p.commits is not None else p
        for p in state.values()
    )


def waited(state: State, left: int) -> State:
    """After a wait of every thread for all but some groups of its work."""
    return keyed(Pending(p.touch) if _is_counted(p) and (p.commits or 0) > left else p for p in state.values())


def waited_by_some(state: State, unit: AsyncUnit | None) -> State:
    """After a wait by some threads, or for something that is not known: it may have made accesses complete, or not."""
    late = [p for p in state.values() if p.commits is not None and p.touch.async_unit is unit]
    return {**state, **keyed(Pending(p.touch) for p in late)} if late else state


def met(state: State) -> State:
    """After a barrier only what is still under way is pending."""
    return {key: p for key, p in state.items() if p.commits is not None}


def joined(states: Iterable[State | None]) -> State | None:
    """Everything that is pending on one of several ways."""
    reached = [state for state in states if state is not None]
    return {key: p for state in reached for key, p in state.items()} if reached else None


def groups_left(stmt: Stmt) -> int | None:
    """How many groups of asynchronous work a wait leaves under way; None if it is no wait, or not known."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    if not isinstance(routine, Instruction) or Effect.WAIT not in routine.effect or not isinstance(stmt, CallStmt):
        return None
    if routine.leaves is not None:
        return routine.leaves
    return int_const(stmt.args[0]) if isinstance(stmt.args[0], Expr) else None


def _is_counted(pending: Pending) -> bool:
    """Whether an access is under way, and commits and waits of its thread tell how long."""
    unit = pending.touch.async_unit
    return pending.commits is not None and unit is not None and unit.every_thread
