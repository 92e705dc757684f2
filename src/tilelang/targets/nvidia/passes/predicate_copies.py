"""Predicates asynchronous copies, instead of branches around them.

    if k < n - 1:                                  for i in T.unroll(8):
        for i in T.unroll(8):               =>         cp_async_16(A_s[i], A[i]) if k < n - 1
            cp_async_16(A_s[i], A[i])

A branch ends a basic block, so that ptxas moves nothing from one side of it to the other: in attention, exponentials
would not overlap the instructions of the gemm before the copies. Where arrays take all registers, branches stay: ptxas
13.0 then moves registers around and spills more, as values of both sides live at once (tiles of 128 x 64 of 4 warps:
74 moves in an iteration, and 6 % more time on an H200).

Takes a thread-level function whose bounds are checked. Invariant: the same copies; what is evaluated without the branch
are addresses, which load nothing.

Source: PTX ISA, "Predicated Execution".
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.assumption import Assume
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Expr, conjunction
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import CallStmt, For, ForKind, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, expressions, loads_of, sub_statements
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.performance.registers import expected_registers
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.isa.cp_async import SIZES, cp_async
from tilelang.targets.nvidia.machines import MAX_REGISTERS
from tilelang.targets.nvidia.passes.costs import rates_of

_FORMS = [(cp_async(size), cp_async(size, predicated=True)) for size in SIZES]


class _Branches(Rewriter):
    """Replaces branches, inner ones first."""

    def stmt(self, node: Stmt) -> Stmt | None:
        made = self.rebuild_stmt(node)
        if not isinstance(made, If) or made.else_body is not None or made.group is not None:
            return made
        if loads_of(made.condition) or not _only_copies(made.then_body):
            return made
        return _Predicate(made.condition).visit(made.then_body)


def _only_copies(body: Stmt) -> bool:
    """Whether a body only copies, to and from addresses that load nothing."""
    if any(map(loads_of, expressions(body))):
        return False
    if isinstance(body, CallStmt):
        return _predicated(body.routine) is not None
    if isinstance(body, Assume):
        return True
    is_straight = isinstance(body, Seq) or isinstance(body, For) and body.kind is ForKind.UNROLLED
    return is_straight and all(map(_only_copies, sub_statements(body)))


def _predicated(routine: Routine) -> Instruction | None:
    """The form of a copy that has a predicate; None for other instructions."""
    return next((predicated for plain, predicated in _FORMS if routine in (plain, predicated)), None)


class _Predicate(Rewriter):
    def __init__(self, condition: Expr) -> None:
        self._condition = condition

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Assume):  # it holds in the branch alone
            return None
        if not isinstance(node, CallStmt):
            return self.rebuild_stmt(node)
        target, source, keep, *inner = node.args
        executes = conjunction([self._condition, *(each for each in inner if isinstance(each, Expr))])
        routine = _predicated(node.routine)
        assert routine is not None
        return dataclasses.replace(node, routine=routine, args=(target, source, keep, executes))


def predicate_copies(launch: Launch, machine: Machine) -> Launch:
    """The launch without branches around copies, if registers suffice for its arrays."""
    body = _Branches().visit(launch.body) or Seq((), loc=launch.body.loc)
    if body is launch.body or expected_registers(launch, machine, rates_of(machine)) >= MAX_REGISTERS:
        return launch
    return dataclasses.replace(launch, body=body)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    return with_launches(func, lambda launch: predicate_copies(launch, context.target.machine))


PASS = Pass(
    "predicate_copies", _run, Level.THREAD, Level.THREAD,
    requires=(Property.ACCESSES_IN_RANGE, Property.BLOCK_BARRIERS_INSERTED),
)
