"""Copies that one thread issues, under divergent control flow: each warp elects one of its active threads.

Takes the statement by which one thread issues a copy, gives it under the condition that the executing thread is the
first active lane of its warp. Copies whose operands depend on the thread index are issued by every active thread.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any

from tilelang.dtypes import SCALARS
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Var, binary, cast, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import CallStmt, If, Seq, Stmt, TileOp
from tilelang.ir.visit import expressions, variables_of
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import ZERO
from tilelang.targets.gpu.isa.warp import ACTIVE_MASK
from tilelang.targets.nvidia.machines import WARP_SIZE


class ElectOne(ABC):
    """A lowering of copies that one thread issues; under divergent control flow one active thread of each warp."""

    @abstractmethod
    def lower(self, op: Any, plan: Any, context: LoweringContext, build: Builder) -> None:
        """Emits the copy where all threads execute the operator."""

    def lower_divergent(self, op: Any, plan: Any, context: LoweringContext, thread: Var, build: Builder) -> None:
        """Emits the copy where only some threads execute the operator."""
        alone = Builder(build.loc)
        self.lower(op, plan, dataclasses.replace(context, threads=1, thread=ZERO), alone)
        build.emit(elect_one(op, alone.finish(), thread))


def elect_one(op: TileOp, issue: Stmt, thread: Var) -> Stmt:
    """The statement, executed by the first active thread of each warp.

    Args:
        op: The operator; if it depends on the thread index, every active thread executes the statement.
        issue: The statement that issues the copy.
        thread: The index of the executing thread.
    """
    if any(thread in variables_of(expr) for expr in expressions(op)):
        return issue
    word = SCALARS["uint32"]
    present, own = Var("present", word), binary(BinaryOp.SHL, const(1, word), cast(thread % WARP_SIZE, word))
    is_first = binary(BinaryOp.EQ, binary(BinaryOp.BITAND, present, (own - 1) | own), own)
    return Seq((CallStmt(ACTIVE_MASK, (), result=present, loc=op.loc), If(is_first, issue, loc=op.loc)), loc=op.loc)
