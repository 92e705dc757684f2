"""Expands operators that are lowered by loops to parallel loops, so that one pass distributes all loops.

Takes a target's table of lowerings; gives the pass. Operators whose lowering `ExpandsTiles` become what it emits:
parallel loops, or operators along one dimension on operands that all threads can access. Fragments are printed from a
copy in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.ir.buffer import Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Print, Stmt, TileOp
from tilelang.ir.visit import Rewriter
from tilelang.lowering import loops
from tilelang.lowering.lowering import ExpandsTiles, Lowerings, chosen_lowering, expansion
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property

_Expansion = Callable[[TileOp], ExpandsTiles | None]


def expand_to_loops(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def chosen(op: TileOp) -> ExpandsTiles | None:
        row, _ = chosen_lowering(lowerings, op)
        return row if isinstance(row, ExpandsTiles) else None

    def run(func: PrimFunc, _: PassContext) -> PrimFunc:
        return with_body(func, _Expand(chosen).visit(func.body))

    return Pass(
        "expand_to_loops", run, Level.TILE, Level.TILE,
        requires=(Property.NO_LIBRARY_OPERATORS, Property.LOWERINGS_CHOSEN, Property.NO_PIPELINED_LOOPS),
        establishes=(Property.OPERATORS_EXPANDED,),
        invalidates=(Property.OPERATORS_UNEXPANDED,),
    )


def all_but_gemms_expanded(func: PrimFunc, lowerings: Lowerings) -> PrimFunc:
    """The function before lowerings are chosen, with all operators but gemms expanded to loops where the table can."""
    expand = _Expand(lambda op: None if isinstance(op, Gemm) else expansion(lowerings, op))
    return with_body(func, expand.visit(func.body))


class _Expand(Rewriter):
    def __init__(self, expansion_of: _Expansion) -> None:
        self._expansion_of = expansion_of

    def stmt(self, node: Stmt) -> Stmt | None:
        build = Builder(node.loc)
        match node:
            case TileOp() if (row := self._expansion_of(node)) is not None:
                row.expand(node, build)
            case Print(operand=Region() as region) if region.buffer.scope is Scope.FRAGMENT:
                loops.expand_print(node, region, build)
            case _:
                return self.rebuild_stmt(node)
        return build.finish()
