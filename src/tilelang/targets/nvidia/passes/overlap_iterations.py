"""Overlaps the loads at the head of an iteration with the mma instructions at the tail of the previous one.

    for k:  wait; start copies; load; multiply ...; multiply the last
 => wait; load; start copies
    for k:  multiply ...; [of k + 1: wait; load; start copies]; multiply the last

Takes a thread-level function without barriers; gives one in which loops whose bodies end with mma instructions on
registers run their head, the statements before the first mma, one iteration earlier. So the latency of loads after an
iteration's barrier is hidden, and loads do not queue after copies. Invariant: the extra head after the last iteration
accesses no global memory, writes only registers of the loop, and reads shared memory within bounds; reordered
statements access different registers and different versions of tiles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tilelang.analysis.register_accesses import conflict, register_accesses
from tilelang.analysis.thread_conflicts import of_other_versions
from tilelang.arith.domain import Domain, of_function
from tilelang.arith.prove import proves
from tilelang.ir.assumption import without_assumptions
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, If, Seq, Stmt, Store
from tilelang.ir.visit import (
    Rewriter,
    expressions,
    jumps,
    loads_of,
    sub_statements,
    substitute_stmt,
    variables_of,
    walk,
    walk_expr,
)
from tilelang.isa.instruction import Effect, ExecutionScope, Instruction
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC

_OF_THREAD = (Scope.LOCAL, Scope.VAR)
_ALLOWED = Effect.COMMIT | Effect.WAIT


class _Parts:
    """The parts of a loop body.

    Attributes:
        head: The statements before the first mma, on other registers than the tail, without bindings and allocations.
        middle: The statements between head and tail.
        tail: The statements at the end that access registers only.
        bindings: The bindings in the head.
        registers: The allocations in the head.
    """

    def __init__(self, flat: Sequence[Stmt], end: int) -> None:
        """Divides statements of which those from `end` on access registers only."""
        self.tail = list(flat[end:])
        in_tail = register_accesses(self.tail)
        head_end = 0
        while head_end < end and not any(_multiplies(inner) for inner in walk(flat[head_end])):
            if conflict(register_accesses(flat[head_end : head_end + 1]), in_tail):
                break
            head_end += 1
        front, self.middle = flat[:head_end], list(flat[head_end:end])
        self.bindings = [s for s in front if isinstance(s, Bind)]
        self.registers = [s for s in front if isinstance(s, Alloc)]
        self.head = _copies_last([s for s in front if not isinstance(s, Bind | Alloc)])

    @property
    def hides_loads(self) -> bool:
        """Whether the head loads from shared memory, and mma instructions of the tail can run during the loads."""
        loads = any(True for s in self.head for _ in _shared_reads(s))
        return loads and any(_multiplies(inner) for s in self.tail for inner in walk(s))


def _parts(body: Stmt) -> _Parts | None:
    """A loop body with the longest tail that leaves loads in the head; None if there is none."""
    flat = flat_statements(body)
    first = len(flat)
    while first and _on_registers(flat[first - 1]):
        first -= 1
    divisions = (_Parts(flat, tail) for tail in range(first, len(flat)))
    return next((parts for parts in divisions if parts.hides_loads), None)


class _Overlap:
    """The rewriting of one loop."""

    def __init__(self, loop: For, parts: _Parts, domain: Domain) -> None:
        self._loop, self._parts = loop, parts
        # including the extra iteration after the last one
        domain = domain.with_range(loop.var, loop.start, None)
        for bind in parts.bindings:
            domain = domain.with_value(bind.var, bind.value)
        self._domain = domain
        self._own = {s.buffer for s in parts.registers}

    def is_legal(self) -> bool:
        """Whether the head may run early."""
        parts = self._parts
        if not all(_is_plain(s) for s in parts.bindings) or not all(_is_register(s) for s in parts.registers):
            return False
        return all(self._may_run(s, self._domain) for s in parts.head)

    def _may_run(self, stmt: Stmt, domain: Domain) -> bool:
        """Whether a statement of the head may run once more, after the last iteration."""
        match stmt:
            case Seq() | For():
                return all(self._may_run(s, domain) for s in sub_statements(stmt)) and self._may_read(stmt, domain)
            case If(condition=condition, then_body=then_body, else_body=None):
                inside = domain.assume(condition)
                if proves(self._loop.var < self._loop.stop, inside):  # false in the extra iteration
                    return _is_asynchronous_load(then_body) and self._may_read(stmt, domain)
                return self._may_run(then_body, inside) and self._may_read(stmt, domain)
            case Store(buffer=buffer):
                return buffer in self._own and self._may_read(stmt, domain)
            case CallStmt(routine=Instruction() as routine, writes=writes, result=None):
                if routine.effect & ~_ALLOWED or any(region.buffer not in self._own for region in writes):
                    return False
                return self._may_read(stmt, domain)
        return False

    def _may_read(self, stmt: Stmt, domain: Domain) -> bool:
        """Whether a statement itself reads only registers, and shared memory within bounds."""
        return all(
            buffer.scope in _OF_THREAD or buffer.scope is Scope.SHARED and self._is_in_bounds(buffer, at, domain)
            for buffer, at in _read_places(stmt)
        )

    def _is_in_bounds(self, buffer: Buffer, at: Sequence[Expr], domain: Domain) -> bool:
        return all(
            proves(index >= 0, domain) and proves(index < extent, domain)
            for index, extent in zip(at, buffer.shape, strict=True)
            if self._loop.var in self._variables(index)
        )

    def _variables(self, expr: Expr) -> frozenset[Var]:
        """The variables in an expression, through the bindings in the head."""
        values = {s.var: s.value for s in self._parts.bindings}
        found = variables_of(expr)
        return found.union(*[self._variables(values[var]) for var in found if var in values])

    def rewritten(self) -> Stmt:
        """The first head, and the loop."""
        loop, parts = self._loop, self._parts
        fixed = [s for s in parts.bindings if loop.var not in self._variables(s.value)]
        moving = [s for s in parts.bindings if s not in fixed]
        following = self._head(moving, loop.var + loop.step)
        body = Seq((*moving, *parts.middle, *following, *parts.tail), loc=loop.body.loc)
        first = self._head(moving, loop.start)
        return Seq((*parts.registers, *fixed, *first, dataclasses.replace(loop, body=body)), loc=loop.loc)

    def _head(self, moving: Sequence[Bind], value: Expr) -> list[Stmt]:
        """The head of an iteration, as statements of its own."""
        values: dict[Var, Expr] = {self._loop.var: value}
        bindings: list[Stmt] = []
        for bind in moving:
            fresh = Var(bind.var.name, bind.var.dtype, index=bind.var.index)
            bindings.append(_copied(substitute_stmt(dataclasses.replace(bind, var=fresh), values)))
            values[bind.var] = fresh
        return [*bindings, *(_copied(substitute_stmt(s, values)) for s in self._parts.head)]


# -- kinds of statements ------------------------------------------------------------------------------------------
def _multiplies(stmt: Stmt) -> bool:
    """Whether a statement is an mma: an instruction of a warp on registers only."""
    return (
        isinstance(stmt, CallStmt)
        and isinstance(stmt.routine, Instruction)
        and stmt.routine.execution_scope is ExecutionScope.WARP
        and stmt.routine.effect is Effect.NONE
        and stmt.routine.async_unit is None
        and bool(stmt.writes)
        and all(region.buffer.scope is Scope.LOCAL for region in (*stmt.reads, *stmt.writes))
    )


def _on_registers(stmt: Stmt) -> bool:
    """Whether a statement accesses only local arrays and scalars."""
    if not isinstance(stmt, For | Seq | Store) and not _multiplies(stmt):
        return False
    if isinstance(stmt, Store) and stmt.buffer.scope not in _OF_THREAD:
        return False
    places = all(buffer.scope in _OF_THREAD for buffer, _ in _read_places(stmt))
    return places and all(_on_registers(child) for child in sub_statements(stmt))


def _shared_reads(stmt: Stmt) -> Iterator[tuple[Buffer, Sequence[Expr]]]:
    """The reads of shared memory in a statement: buffer and indices."""
    for inner in walk(stmt):
        loads = (e for root in expressions(inner) for e in loads_of(root))
        yield from ((e.buffer, e.indices) for e in loads if e.buffer.scope is Scope.SHARED)
        if isinstance(inner, CallStmt):
            yield from ((r.buffer, r.start) for r in inner.reads if r.buffer.scope is Scope.SHARED)


def _is_asynchronous_load(stmt: Stmt) -> bool:
    """Whether a statement only issues or commits asynchronous copies."""
    if isinstance(stmt, CallStmt):
        routine = stmt.routine
        starts = isinstance(routine, Instruction) and routine.async_unit is CP_ASYNC
        return starts and isinstance(routine, Instruction) and Effect.WAIT not in routine.effect
    inner = isinstance(stmt, Seq | For | If | Bind)
    return inner and all(map(_is_asynchronous_load, sub_statements(stmt)))


def _copies_last(head: Sequence[Stmt]) -> list[Stmt]:
    """The statements with copies sunk below later loads, as far as these read other versions of tiles."""
    reordered: list[Stmt] = []
    copies: list[Stmt] = []
    for stmt in head:
        if _is_asynchronous_load(stmt):
            copies.append(stmt)
            continue
        if not all(_may_pass(stmt, copy) for copy in copies):
            reordered += copies
            copies = []
        reordered.append(stmt)
    return reordered + copies


def _may_pass(stmt: Stmt, copy: Stmt) -> bool:
    """Whether a statement may move above copies that stand before it."""
    calls = [s for s in walk(stmt) if isinstance(s, CallStmt) and isinstance(s.routine, Instruction)]
    if any(s.routine.effect is not Effect.NONE for s in calls):  # type: ignore[attr-defined]
        return False
    targets = [region for s in walk(copy) if isinstance(s, CallStmt) for region in s.writes]
    return all(
        target.buffer.storage is not buffer.storage
        or (int_const(target.extent[0]) == 1 and target.buffer is buffer and of_other_versions(at[0], target.start[0]))
        for target in targets
        for buffer, at in _shared_reads(stmt)
    )


def _is_plain(stmt: Bind) -> bool:
    return stmt.var.index and not loads_of(stmt.value)


def _is_register(stmt: Alloc) -> bool:
    return stmt.buffer.scope is Scope.LOCAL and stmt.buffer.view_of is None and stmt.init is None


def _read_places(stmt: Stmt) -> Iterator[tuple[Buffer, Sequence[Expr]]]:
    """The reads of a statement itself, and its address operands: buffer and indices of the first element."""
    for root in expressions(stmt):
        for e in walk_expr(root):
            if isinstance(e, Load):
                yield e.buffer, e.indices
    if isinstance(stmt, CallStmt):
        for region in (*stmt.reads, *stmt.args):
            if isinstance(region, Region):
                yield region.buffer, region.start


class _Copy(Rewriter):
    """Copies every statement: later passes distinguish statements by identity."""

    def stmt(self, node: Stmt) -> Stmt | None:
        new = self.rebuild_stmt(node)
        return dataclasses.replace(node) if new is node else new


def _copied(stmt: Stmt) -> Stmt:
    return _Copy().visit(stmt) or Seq((), loc=stmt.loc)


# -- the pass ----------------------------------------------------------------------------------------------------
class _Launches(Rewriter):
    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, For):
            return self.rebuild_stmt(node)
        if node.kind is ForKind.SERIAL and node.step > 0 and not jumps(node.body):
            loop = dataclasses.replace(node, body=without_assumptions(node.body))  # they may not hold in the head
            parts = _parts(loop.body)
            overlap = parts and _Overlap(loop, parts, self._domain)
            if overlap and overlap.is_legal():
                return overlap.rewritten()
        return self.rebuild_stmt(node)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Launches(of_function(func)).visit(func.body))


PASS = Pass(
    "overlap_iterations", _run, Level.THREAD, Level.THREAD,
    requires=(Property.SCALAR_LOADS_HOISTED, Property.LOGICAL_INDICES),
    establishes=(Property.ITERATIONS_OVERLAPPED,),
)
