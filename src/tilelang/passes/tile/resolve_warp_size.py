"""Gives the size of a warp, which programs are written without, its value on the target.

Takes a tile-level function as the user wrote it, gives one without `WARP_SIZE`. Invariant: masks of lanes have a bit
for each lane of a warp; programs write them as 32 bits, so they are refused where warps are wider or narrower.
"""

from __future__ import annotations

from tilelang.dtypes import INT32
from tilelang.errors import NoLowering
from tilelang.ir.expr import WARP_SIZE, Expr, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.language.lanes import LANES, MASK
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.machine import Machine


class _Resolve(Rewriter):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def expr(self, node: Expr) -> Expr:
        return const(self._machine.warp_size, INT32) if node is WARP_SIZE else self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, CallStmt) and isinstance(node.routine, Instruction):
            if node.routine.execution_scope is ExecutionScope.WARP:
                self._check_mask(node, node.routine)
        return self.rebuild_stmt(node)

    def _check_mask(self, call: CallStmt, instruction: Instruction) -> None:
        """Refuses masks, which come first or are the result, that do not have a bit for each lane."""
        mask = call.args[0] if call.args else call.result
        lanes = self._machine.warp_size
        if lanes != LANES and isinstance(mask, Expr) and mask.dtype == MASK:
            with call.loc:
                raise NoLowering(
                    f"{instruction.name}: names lanes by the bits of a {MASK!s}, but a warp of {self._machine.name} "
                    f"has {lanes} lanes",
                    hint="write T.reduce_sum, T.cumsum and the like on tiles, which suit warps of any size",
                )


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    return with_body(func, _Resolve(context.target.machine).visit(func.body))


PASS = Pass(
    "resolve_warp_size", _run, Level.TILE, Level.TILE,
    requires=(Property.LOOPS_AS_WRITTEN,),
    establishes=(Property.WARP_SIZE_KNOWN,),
)
"""The pass."""
