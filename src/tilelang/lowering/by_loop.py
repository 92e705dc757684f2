"""The lowering of operators that another pass writes as parallel loops: the last row of the table."""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.errors import CompilerBug
from tilelang.ir.builder import Builder
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import TileOp
from tilelang.layout.constraints import Constraint
from tilelang.lowering.lowering import ACCEPTED, LoweringContext, Refusal
from tilelang.ops.copy import Copy

NOT_COUNTED = "nothing would count its bytes at the barrier"


class ByLoop:
    """Stands for the loops that `expand_to_loops` makes.

    Attributes:
        name: The choice as that pass knows it, such as "copy.loop".
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def accepts(self, op: TileOp, context: LoweringContext) -> Plan | Refusal:
        """Loops can do everything but complete a barrier."""
        return Refusal(NOT_COUNTED) if isinstance(op, Copy) and op.barrier is not None else ACCEPTED

    def constrain(self, op: TileOp, plan: Plan, context: LoweringContext) -> Iterable[Constraint]:
        """The loops speak for themselves."""
        return ()

    def lower(self, op: TileOp, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """Never asked, since no such operator is left."""
        raise CompilerBug(f"{op.name}: chosen to be done by loops, but no pass has written them")
