"""The memory accesses of the statements of a launch that may conflict, for the insertion of barriers.

Takes statements with the facts at their program points, gives `ThreadAccess`es. Invariant: a statement has the same
`ThreadAccess` objects whenever it is asked for, so that analyses may compare them by identity.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tilelang.analysis.context_facts import ContextFacts, FactPropagation
from tilelang.analysis.thread_accesses import (
    LoopCarried,
    ThreadAccess,
    accesses_memory,
    syncs_block,
    syncs_some_threads,
    thread_accesses,
)
from tilelang.analysis.uniformity import Uniformity
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import Atomic, Break, CallStmt, Continue, For, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import sub_statements, walk
from tilelang.isa.instruction import AsyncUnit, Effect, Instruction
from tilelang.records import record


@record(slots=True)
class AccessSummary:
    """Whether a statement or its sub-statements have relevant accesses or effects, write, or synchronize."""

    relevant: bool
    writes: bool
    syncs: bool

    def merged(self, other: AccessSummary) -> AccessSummary:
        """The summary of two statements."""
        return AccessSummary(self.relevant or other.relevant, self.writes or other.writes, self.syncs or other.syncs)


class LaunchAccesses:
    """The accesses of one launch, computed once for each statement.

    Args:
        launch: At thread level.
        warp_size: Threads of a warp.
        uniform: Which values are uniform over the block.
        may_conflict: Whether accesses to a buffer can conflict at all.

    Attributes:
        facts: Propagates facts from statement to statement.
    """

    def __init__(
        self, launch: Launch, warp_size: int, uniform: Uniformity, may_conflict: Callable[[Buffer], bool]
    ) -> None:
        self._threads, self._warp_size = launch.num_threads, warp_size
        self._uniform, self._may_conflict = uniform, may_conflict
        calls = (s for s in walk(launch.body) if isinstance(s, CallStmt))
        relevant = [s.routine for s in calls if accesses_memory(s, may_conflict)[0]]
        self._async_units = {routine.async_unit for routine in relevant if isinstance(routine, Instruction)}
        self._own: dict[Stmt, list[ThreadAccess]] = {}
        self._inside: dict[Stmt, tuple[list[ThreadAccess], list[AsyncUnit | None]]] = {}
        self._carried: dict[Stmt, LoopCarried] = {}
        self._summaries: dict[Stmt, AccessSummary] = {}
        self.facts = FactPropagation()

    def syncs_block(self, stmt: CallStmt) -> bool:
        """Whether a call is a barrier of all threads of the block."""
        return syncs_block(stmt, self._threads, self._warp_size)

    def own(self, stmt: Stmt, facts: ContextFacts) -> list[ThreadAccess]:
        """The accesses of a statement itself."""
        accesses = self._own.get(stmt)
        if accesses is None:
            accesses = self._own[stmt] = self._accesses_of(stmt, facts)
        return accesses

    def _accesses_of(self, stmt: Stmt, facts: ContextFacts) -> list[ThreadAccess]:
        accesses = thread_accesses(stmt, facts.values, facts.conditions)
        return [t for t in accesses if t.releases or t.acquires or self._may_conflict(t.buffer)]

    def inside(self, stmt: Stmt, facts: ContextFacts) -> tuple[list[ThreadAccess], list[AsyncUnit | None]]:
        """The accesses of a statement and its sub-statements, expressed after it, and the units that it waits for."""
        found = self._inside.get(stmt)
        if found is None:
            accesses, statements = self._all_accesses(stmt, facts), list(walk(stmt))
            if any(map(syncs_some_threads, statements)):
                accesses = [dataclasses.replace(access, explicitly_ordered=True) for access in accesses]
            if any(isinstance(s, While) and any(isinstance(a, Atomic) for a in walk(s)) for s in statements):
                accesses = [dataclasses.replace(t, spins=t.atomic and not t.by_all_threads) for t in accesses]
            calls = (s.routine for s in statements if isinstance(s, CallStmt))
            routines = [routine for routine in calls if isinstance(routine, Instruction)]
            waits = [routine.async_unit for routine in routines if Effect.WAIT in routine.effect]
            found = self._inside[stmt] = (accesses, waits)
        return found

    def _all_accesses(self, stmt: Stmt, facts: ContextFacts) -> list[ThreadAccess]:
        accesses = self._accesses_of(stmt, facts)
        match stmt:
            case Seq(body=body):
                for child in body:
                    accesses += self._all_accesses(child, facts)
                    facts = self.facts.after(child, facts)
            case If(then_body=then_body, else_body=else_body):
                then = self._all_accesses(then_body, self.facts.in_branch(stmt, facts, holds=True))
                if stmt.group is not None and stmt.group.count == 1:
                    then = [dataclasses.replace(access, single_thread=stmt.group) for access in then]
                accesses += then
                if else_body is not None:
                    accesses += self._all_accesses(else_body, self.facts.in_branch(stmt, facts, holds=False))
                if self._uniform.diverges(stmt):
                    accesses = [dataclasses.replace(access, by_all_threads=False) for access in accesses]
            case For() | While():
                carried = self.loop_carried(stmt, facts)
                inside = [*accesses, *self._all_accesses(stmt.body, self.facts.in_body(stmt, facts))]
                accesses = [carried.after(access) for access in inside]
        return accesses

    def loop_carried(self, stmt: For | While, facts: ContextFacts) -> LoopCarried:
        """Expresses the accesses of an iteration at later program points."""
        carried = self._carried.get(stmt)
        if carried is None:
            carried = self._carried[stmt] = LoopCarried(stmt, facts.domain)
        return carried

    def summary(self, stmt: Stmt) -> AccessSummary:
        """The summary of a statement and its sub-statements."""
        summary = self._summaries.get(stmt)
        if summary is None:
            accesses, writes = accesses_memory(stmt, self._may_conflict)
            changes, syncs = isinstance(stmt, Break | Continue), False
            if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction):
                changes, syncs = self._changes_state(stmt, stmt.routine), bool(stmt.routine.effect)
            ordered = isinstance(stmt, Atomic) and (stmt.releases or stmt.acquires)
            summary = AccessSummary(accesses or changes, writes or ordered, syncs)
            for child in sub_statements(stmt):
                summary = summary.merged(self.summary(child))
            self._summaries[stmt] = summary
        return summary

    def _changes_state(self, stmt: CallStmt, routine: Instruction) -> bool:
        """Whether an instruction is a barrier, or commits or waits for relevant asynchronous accesses."""
        waits = bool(routine.effect & (Effect.COMMIT | Effect.WAIT)) and routine.async_unit in self._async_units
        return waits or self.syncs_block(stmt)
