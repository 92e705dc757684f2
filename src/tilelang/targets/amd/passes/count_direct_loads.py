"""Turns waits for groups of direct loads into waits for loads (`s_waitcnt vmcnt`), since the hardware counts loads.

Takes a thread-level function with its barriers, in which software pipelines mark groups of loads by the
pseudo-instructions `COMMIT_DIRECT_LOADS` and `WAIT_FOR_DIRECT_LOAD_GROUPS`; gives one without them. Invariant: the
number of a wait is at most the number of loads that every wave has issued on every path since the group that it waits
for: a smaller number makes a wait stronger, a larger one would be a race. Loads in uniform branches are issued on all
paths, with a predicate, if that raises the numbers of waits.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, conjunction, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Bind, CallStmt, For, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import Rewriter, sub_statements, walk
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.amd.isa.direct_to_lds import COMMIT_DIRECT_LOADS, DIRECT_LOADS, WAIT_FOR_DIRECT_LOAD_GROUPS
from tilelang.targets.amd.isa.wait_counters import MAX_DIRECT_LOADS, WAIT_FOR_DIRECT_LOADS

_GROUPS = 16  # the newest groups, which the analysis tracks

_InFlight = tuple[int, ...]
"""Lower bounds of the loads issued: since the last commit, then in each group, newest first."""


def _is(stmt: Stmt, routine: object) -> bool:
    return isinstance(stmt, CallStmt) and stmt.routine is routine


def _is_load(stmt: Stmt) -> bool:
    return any(_is(stmt, load) for load in DIRECT_LOADS.values())


def _is_pseudo_instruction(stmt: Stmt) -> bool:
    """Whether a statement is a pseudo-instruction that this pass replaces."""
    return _is(stmt, COMMIT_DIRECT_LOADS) or _is(stmt, WAIT_FOR_DIRECT_LOAD_GROUPS)


# -- branches ----------------------------------------------------------------------------------------------------
class _PredicateLoads(Rewriter):
    """Moves the loads of branches out of them, with the condition as a further predicate."""

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, If) and node.else_body is None and node.group is None and _only_loads(node.then_body):
            return _AddPredicate(node.condition).visit(node.then_body)
        return self.rebuild_stmt(node)


class _AddPredicate(Rewriter):
    def __init__(self, condition: Expr) -> None:
        self._condition = condition

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, CallStmt) and _is_load(node):
            target, source, keep = node.args
            assert isinstance(keep, Expr)
            return dataclasses.replace(node, args=(target, source, conjunction([self._condition, keep])))
        return self.rebuild_stmt(node)


def _only_loads(body: Stmt) -> bool:
    """Whether statements only issue loads, as many for every thread."""
    if isinstance(body, Seq | For):
        return all(map(_only_loads, sub_statements(body)))
    return isinstance(body, Bind) or _is_load(body)


# -- counting ----------------------------------------------------------------------------------------------------
def _meet(first: _InFlight, second: _InFlight) -> _InFlight:
    """The meet of the states of two paths."""
    return tuple(min(a, b) for a, b in zip(first, second, strict=False))


class _InFlightAnalysis:
    """Forward data-flow analysis: the number of loads that each wait may leave in flight.

    Attributes:
        pending: The loads in flight after each wait.
    """

    def __init__(self) -> None:
        self.pending: dict[Stmt, int] = {}

    def run(self, body: Stmt) -> None:
        """Analyzes a whole launch."""
        state: _InFlight = (0,)
        for stmt in flat_statements(body):
            state = self.after(stmt, state)

    def after(self, stmt: Stmt, state: _InFlight) -> _InFlight:
        """The loads in flight after a statement."""
        if _is_load(stmt):
            return (state[0] + 1, *state[1:])
        if _is(stmt, COMMIT_DIRECT_LOADS):
            return (0, *state[:_GROUPS])
        if isinstance(stmt, CallStmt) and _is(stmt, WAIT_FOR_DIRECT_LOAD_GROUPS):
            assert isinstance(stmt.args[0], Expr)
            newest = state[: 1 + (int_const(stmt.args[0]) or 0)]
            self.pending[stmt] = min(sum(newest), self.pending.get(stmt, MAX_DIRECT_LOADS))
            return state
        if isinstance(stmt, If):
            branches = [self.after(body, state) for body in (stmt.then_body, stmt.else_body) if body is not None]
            return _meet(branches[0], branches[1] if len(branches) > 1 else state)
        if isinstance(stmt, For):
            start, stop = int_const(stmt.start), int_const(stmt.stop)
            trips = None if start is None or stop is None else len(range(start, stop, stmt.step))
            return self._after_loop(stmt.body, state, trips)
        if isinstance(stmt, While):
            return self._after_loop(stmt.body, state, None)
        for child in sub_statements(stmt):
            state = self.after(child, state)
        return state

    def _after_loop(self, body: Stmt, state: _InFlight, trips: int | None) -> _InFlight:
        if trips is not None and not any(map(_is_pseudo_instruction, walk(body))):
            for _ in range(min(trips, MAX_DIRECT_LOADS)):
                state = self.after(body, state)
            return state
        while True:  # to the fixed point; states only decrease
            again = _meet(state, self.after(body, state))
            if again == state:
                return state
            state = again


class _Resolve(Rewriter):
    """Replaces the pseudo-instructions by waits for numbers of loads."""

    def __init__(self, count: _InFlightAnalysis) -> None:
        self._count = count

    def stmt(self, node: Stmt) -> Stmt | None:
        if _is(node, COMMIT_DIRECT_LOADS):
            return None
        if isinstance(node, CallStmt) and _is(node, WAIT_FOR_DIRECT_LOAD_GROUPS):
            return CallStmt(WAIT_FOR_DIRECT_LOADS, (const(self._count.pending[node], INT32),), loc=node.loc)
        return self.rebuild_stmt(node)


def _counted(launch: Launch) -> Launch:
    if not any(_is_load(s) for s in walk(launch.body)):
        if not any(map(_is_pseudo_instruction, walk(launch.body))):
            return launch
        return dataclasses.replace(launch, body=_RemovePseudos().visit(launch.body) or launch.body)
    body, count = launch.body, _InFlightAnalysis()
    count.run(body)
    predicated, count_predicated = _PredicateLoads().visit(body) or body, _InFlightAnalysis()
    count_predicated.run(predicated)
    if sum(count_predicated.pending.values()) > sum(count.pending.values()):
        body, count = predicated, count_predicated
    return dataclasses.replace(launch, body=_Resolve(count).visit(body) or body)


class _RemovePseudos(Rewriter):
    """Removes pseudo-instructions from launches without direct loads."""

    def stmt(self, node: Stmt) -> Stmt | None:
        return None if _is_pseudo_instruction(node) else self.rebuild_stmt(node)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _counted)


PASS = Pass(
    "count_direct_loads", _run, Level.THREAD, Level.THREAD,
    requires=(Property.GROUP_BARRIERS_INSERTED,),
)  # fmt: skip
