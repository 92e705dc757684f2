"""Gives the size of a warp, which programs are written without, its value on the target.

Takes a tile-level function as the user wrote it, gives one without `WARP_SIZE`. Invariant: masks of lanes have a bit
for each lane of a warp. Programs write them as 32 bits; where warps are wider, votes and barriers of all lanes get a
wider mask, and so do shuffles whose width says which lanes they mean: those of fewer than 32 lanes, or of the whole
warp. What counts lanes in groups of 32, as shuffles do by default, or names some lanes is refused.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import NoLowering
from tilelang.ir.expr import WARP_SIZE, Expr, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.language.lanes import LANES, MASK
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.gpu.isa.lanes import FULL_MASK
from tilelang.targets.gpu.isa.sync import SYNC_WARP
from tilelang.targets.gpu.isa.warp import ALL, ANY, BALLOT, BALLOT_WIDE
from tilelang.targets.machine import Machine

_WIDE = SCALARS["uint64"]
_OF_ALL_LANES = (ALL, ANY, BALLOT, SYNC_WARP)


class _Resolve(Rewriter):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._results: dict[Var, Var] = {}  # masks that got wider

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Var) and node in self._results:
            return self._results[node]
        return const(self._machine.warp_size, INT32) if node is WARP_SIZE else self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, CallStmt) and isinstance(node.routine, Instruction):
            if node.routine.execution_scope is ExecutionScope.WARP:
                node = self._widened(node)
                self._check_mask(node)
        return self.rebuild_stmt(node)

    def _widened(self, call: CallStmt) -> CallStmt:
        """A vote, barrier or shuffle of all lanes, with a bit for each; any other call as it is."""
        lanes, mask = self._machine.warp_size, call.args[0] if call.args else None
        if lanes != _WIDE.bits or call.routine not in _OF_ALL_LANES and _width(call) in (None, LANES):
            return call
        if not isinstance(mask, Expr) or mask.dtype != MASK or int_const(mask) != FULL_MASK:
            return call
        widened = dataclasses.replace(call, args=(const(2**lanes - 1, _WIDE), *call.args[1:]))
        if call.routine is not BALLOT or call.result is None:
            return widened
        result = Var(call.result.name, _WIDE)
        self._results[call.result] = result
        return dataclasses.replace(widened, routine=BALLOT_WIDE, result=result)

    def _check_mask(self, call: CallStmt) -> None:
        """Refuses masks, which come first or are the result, that do not have a bit for each lane."""
        mask = call.args[0] if call.args else call.result
        lanes, width = self._machine.warp_size, _width(call)
        if width is not None and width > lanes:
            with call.loc:
                raise NoLowering(
                    f"{call.name}: a width of {width} lanes, but a warp of {self._machine.name} has {lanes}",
                    hint=f"write width={lanes}",
                )
        if lanes != LANES and isinstance(mask, Expr) and mask.dtype == MASK:
            instead = call.routine.instead if isinstance(call.routine, Instruction) else ""
            with call.loc:
                raise NoLowering(
                    f"{call.name}: names lanes by the bits of a {MASK!s}, but a warp of {self._machine.name} "
                    f"has {lanes} lanes",
                    hint=(instead or "write T.reduce_sum, T.cumsum and the like on tiles, which suit warps of any size")
                    + ("" if width is None else f", or width={lanes} for shuffles among {lanes} lanes"),
                )


def _width(call: CallStmt) -> int | None:
    """The lanes of a segment of a shuffle; None for other calls."""
    is_shuffle = isinstance(call.routine, Instruction) and call.routine.dialect_key[:1] == ("shuffle",)
    width = call.args[-1] if is_shuffle else None
    return int_const(width) if isinstance(width, Expr) else None


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    return with_body(func, _Resolve(context.target.machine).visit(func.body))


PASS = Pass(
    "resolve_warp_size", _run, Level.TILE, Level.TILE,
    requires=(Property.LOOPS_AS_WRITTEN,),
    establishes=(Property.WARP_SIZE_KNOWN,),
)
"""The pass."""
