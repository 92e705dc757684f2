"""Lets two groups of waves ping-pong: one uses the matrix units while the other accesses memory.

Takes a thread-level function without barriers of the compiler; loops of gemms get barriers that end the phases of
`schedule.ping_pong`, where that saves time. It needs work-groups with as many waves for each SIMD unit in both groups.
Invariant: any two conflicting accesses have two of these barriers between them, since one group is a phase behind the
other. Barriers after phases of memory and those after phases of the matrix units alternate, so both kinds must suffice
without the other one.

    for k:  load a, b of tile k + 1;  load step 0;  load step 1; multiply step 0;  multiply step 1;  store a, b
 => begin_ping_pong
    for k:  load a, b of tile k + 1; load step 0; load step 1 | multiply step 0 | store a, b | multiply step 1 |
    end_ping_pong                                                                       (`end_phase` for each |)

Source: "HipKittens: Fast and Furious AMD Kernels" (arXiv 2511.08083), "8-wave ping-pong".
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from tilelang.analysis.accesses import accesses
from tilelang.analysis.register_accesses import conflict, register_accesses
from tilelang.analysis.uniformity import uniformity
from tilelang.analysis.unrolled_loops import is_unrolled, values
from tilelang.arith.domain import Domain, of_function
from tilelang.dtypes import INT32
from tilelang.errors import Note
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, If, Launch, Seq, Stmt, Store, While
from tilelang.ir.visit import (
    Rewriter,
    accessed_buffers,
    defined_variables,
    expressions,
    jumps,
    loads_of,
    sub_statements,
    substitute_stmt,
    variables_of,
    walk,
)
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.thread.insert_barriers import has_enough_barriers
from tilelang.schedule.ping_pong import PingPong, Step, alternating_phases
from tilelang.targets.amd.isa import ping_pong
from tilelang.targets.amd.isa.scheduling import KEEP_MATRIX_ORDER, KEEP_ORDER
from tilelang.targets.amd.isa.wait_counters import counters_of
from tilelang.targets.amd.machines import SIMDS
from tilelang.targets.amd.passes.relax_barriers import orders_global_memory
from tilelang.targets.machine import Machine

_GROUPS = 2


class _PingPong(Rewriter):
    """Rewrites the outermost loops of one launch that can ping-pong.

    Args:
        launch: The launch.
        machine: The machine.
        domain: The facts that hold around the launch.

    Attributes:
        notes: On loops that do.
    """

    def __init__(self, launch: Launch, machine: Machine, domain: Domain) -> None:
        self._launch, self._machine, self._domain = launch, machine, domain
        self._uniform = uniformity(launch)
        self._waves = launch.num_threads // (_GROUPS * machine.warp_size)  # of a group
        self.notes: list[Note] = []
        counters = counters_of(machine)
        self._begin, self._end = ping_pong.begin_ping_pong(counters), ping_pong.end_ping_pong(counters)
        self._end_phase = ping_pong.end_phase(counters)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, If | For | While) and self._uniform.diverges(node):
            return node
        if not isinstance(node, For) or node.kind is not ForKind.SERIAL or not _multiplies(node):
            return self.rebuild_stmt(node)
        statements = _steps(node.body)
        if statements is None:
            return self.rebuild_stmt(node)
        found = alternating_phases([self._step(statements, number) for number in range(len(statements))])
        if found is None or not found.gains:
            return node
        tried = (self._in_ping_pong(node, statements, found, kept) for kept in range(_GROUPS))
        if not all(self._is_ordered(node, loop) for loop in tried):
            return node
        waves = f"two groups of {self._waves} waves ping-pong in {len(found.phases)} phases"
        cycles = f"{found.cycles} cycles an iteration by estimate, {found.cycles_together} without ping-pong"
        self.notes.append(Note(f"T.Pipelined: {waves}: {cycles}", node.loc))
        return self._between(self._in_ping_pong(node, statements, found))

    def _is_ordered(self, loop: For, changed: For) -> bool:
        """Whether the barriers in a changed loop order its accesses."""
        body = _Replace(loop, self._between(changed)).visit(self._launch.body) or changed
        launch = dataclasses.replace(self._launch, body=body)
        return has_enough_barriers(changed, launch, self._machine.warp_size, self._domain)

    def _between(self, loop: For) -> Stmt:
        """The loop between the beginning and the end of ping-pong."""
        assert self._launch.thread is not None
        late = self._launch.thread >= self._launch.num_threads // _GROUPS
        begin, end = (CallStmt(routine, (late,), loc=loop.loc) for routine in (self._begin, self._end))
        return Seq((begin, loop, end), loc=loop.loc)

    def _in_ping_pong(self, loop: For, statements: Sequence[Stmt], found: PingPong, kept: int | None = None) -> For:
        """The loop with barriers after its phases.

        Args:
            loop: The loop.
            statements: The steps of its body.
            found: Their phases.
            kept: The remainder by two of the phases that end with a barrier; None for all.
        """
        body: list[Stmt] = []
        for place, phase in enumerate(found.phases):
            body += [statements[number] for number in phase]
            if kept is None or place % _GROUPS == kept:
                body.append(CallStmt(self._end_phase, (), loc=loop.loc))
        return dataclasses.replace(loop, body=Seq(tuple(body), loc=loop.body.loc))

    def _step(self, statements: Sequence[Stmt], number: int) -> Step:
        stmt = statements[number]
        needs = frozenset(before for before in range(number) if _precedes(statements[before], stmt))
        memory = self._waves * _total(stmt, lambda each: _shared_cycles(each, self._machine))
        return Step(self._waves // SIMDS * _total(stmt, _matrix_cycles), memory, needs)


class _Replace(Rewriter):
    """Replaces one statement."""

    def __init__(self, old: Stmt, new: Stmt) -> None:
        self._old, self._new = old, new

    def stmt(self, node: Stmt) -> Stmt | None:
        return self._new if node is self._old else self.rebuild_stmt(node)


# -- steps -------------------------------------------------------------------------------------------------------
def _steps(body: Stmt) -> list[Stmt] | None:
    """The statements of a body, each of which multiplies or accesses memory or neither; None if there are others.

    Unrolled loops of statements that multiply and such that access memory are written out.
    """
    found: list[Stmt] = []
    for stmt in flat_statements(body):
        if isinstance(stmt, CallStmt) and stmt.routine in (KEEP_MATRIX_ORDER, KEEP_ORDER):
            continue  # phases keep the order
        if not _multiplies(stmt) or not _accesses_memory(stmt):
            if not _is_plain(stmt):
                return None
            found.append(stmt)
            continue
        if not isinstance(stmt, For) or not is_unrolled(stmt):
            return None
        for value in values(stmt) or ():
            inside = _steps(stmt.body)
            if inside is None or any(isinstance(s, Alloc | Bind) for s in inside):
                return None
            found += [_in_iteration(stmt, value, each) for each in inside]
    return found


def _in_iteration(loop: For, value: int, stmt: Stmt) -> For:
    """A statement of one iteration, in a loop of that alone: with its variable, offsets in tiles have a common part."""
    var = Var(loop.var.name, loop.var.dtype, index=loop.var.index)
    first, stop, body = const(value, INT32), const(value + 1, INT32), substitute_stmt(stmt, {loop.var: var})
    return dataclasses.replace(loop, var=var, start=first, stop=stop, step=1, body=body)


def _is_plain(stmt: Stmt) -> bool:
    """Whether a statement neither synchronizes nor jumps."""
    routines = (s.routine for s in walk(stmt) if isinstance(s, CallStmt))
    return not jumps(stmt) and not any(isinstance(routine, Instruction) and routine.effect for routine in routines)


def _multiplies(stmt: Stmt) -> bool:
    return _total(stmt, _matrix_cycles) > 0


def _accesses_memory(stmt: Stmt) -> bool:
    return any(access.buffer.scope in (Scope.SHARED, Scope.GLOBAL) for access in accesses(stmt).all)


def _matrix_cycles(stmt: Stmt) -> int:
    """The cycles of a matrix instruction."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    return routine.matrix.cycles if isinstance(routine, Instruction) and routine.matrix is not None else 0


def _shared_cycles(stmt: Stmt, machine: Machine) -> int:
    """The cycles for which accesses of a statement itself, by one wave, occupy LDS."""
    if isinstance(stmt, CallStmt):
        widths = [("load", region) for region in stmt.reads] + [("store", region) for region in stmt.writes]
        found = [
            (kind, math.prod(region.static_extent or ()) * region.buffer.dtype.storage_bytes)
            for kind, region in widths
            if region.buffer.scope is Scope.SHARED
        ]
    else:
        loads = [load for root in expressions(stmt) for load in loads_of(root) if load.buffer.scope is Scope.SHARED]
        found = [("load", load.dtype.storage_bytes) for load in loads]
        if isinstance(stmt, Store) and stmt.buffer.scope is Scope.SHARED:
            found.append(("store", stmt.value.dtype.storage_bytes))
    return sum(len(machine.phases(kind, width).lanes) for kind, width in found)


def _total(stmt: Stmt, amount: Callable[[Stmt], int]) -> int:
    """The sum over a statement and all below it, as often as loops of constant extents run them."""
    times = len(values(stmt) or (0,)) if isinstance(stmt, For) else 1
    return amount(stmt) + times * sum(_total(child, amount) for child in sub_statements(stmt))


def _precedes(first: Stmt, second: Stmt) -> bool:
    """Whether two statements must stay in order: by registers or by a variable."""
    defined = {var for stmt in walk(first) for var in defined_variables(stmt)}
    if isinstance(first, Alloc) and any(first.buffer in accessed_buffers(stmt) for stmt in walk(second)):
        return True
    used = {var for stmt in walk(second) for root in expressions(stmt) for var in variables_of(root)}
    return not defined.isdisjoint(used) or conflict(register_accesses([first]), register_accesses([second]))


# -- the pass ----------------------------------------------------------------------------------------------------
def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    machine, domain = context.target.machine, of_function(func)

    def run(launch: Launch) -> Launch:
        if launch.num_threads % (_GROUPS * SIMDS * machine.warp_size) or orders_global_memory(launch):
            return launch
        rewrite = _PingPong(launch, machine, domain)
        body = rewrite.visit(launch.body) or launch.body
        if not rewrite.notes:
            return launch
        plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *rewrite.notes))
        return dataclasses.replace(launch, body=body, plan=plan)

    return with_launches(func, run)


PASS = Pass(
    "ping_pong", _run, Level.THREAD, Level.THREAD,
    requires=(Property.SHARED_MEMORY_ALLOCATED, Property.SCALAR_LOADS_HOISTED, Property.LOGICAL_INDICES),
)  # fmt: skip
