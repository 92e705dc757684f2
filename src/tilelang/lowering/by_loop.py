"""Lowerings of operators to parallel loops over their elements, for the tables of all targets.

On targets with threads, `expand_to_loops` expands them, and `lower_to_threads` distributes the loops like the user's
own: `targets.gpu.lowerings.thread_all_reduce` combines what the threads have of a reduction, by one instruction,
shuffles or shared memory. On other targets `lower_tile_ops` expands them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilelang.errors import CompilerBug
from tilelang.ir.builder import Builder
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import TileOp
from tilelang.lowering import loops
from tilelang.lowering.lowering import ACCEPTED, LoweringContext, PlainLowering, Refusal
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.im2col import Im2Col
from tilelang.ops.reduce import Reduce

NOT_COUNTED = "nothing would count its bytes at the barrier"


class ByLoop(PlainLowering):
    """The lowering of one operator class to loops.

    Attributes:
        name: Name of the lowering, such as "copy.loop".
        expand: Emits the loops of an operator.
    """

    def __init__(self, name: str, expand: Callable[[Any, Builder], None]) -> None:
        self.name, self.expand = name, expand

    def accepts(self, op: TileOp, context: LoweringContext) -> Plan | Refusal:
        """Accepts all operators but those that signal a transaction barrier."""
        return Refusal(NOT_COUNTED) if isinstance(op, Copy) and op.barrier is not None else ACCEPTED

    def lower(self, op: TileOp, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """Unreachable: the operators have been expanded."""
        raise CompilerBug(f"{op.name}: lowered by loops, but no pass has expanded it")


ATOMIC = ByLoop("atomic.loop", loops.expand_atomic)
COPY = ByLoop("copy.loop", loops.expand_copy)
FILL = ByLoop("fill.loop", loops.expand_fill)
GEMM = ByLoop("gemm.loop", loops.expand_gemm)
IM2COL = ByLoop("im2col.loop", loops.expand_im2col)
REDUCE = ByLoop("reduce.loop", loops.expand_reduce)
TRANSPOSE = ByLoop("transpose.loop", loops.expand_transpose)

LOOPS: Mapping[type[TileOp], ByLoop] = MappingProxyType(
    {
        AtomicTile: ATOMIC,
        Copy: COPY,
        Fill: FILL,
        Gemm: GEMM,
        Im2Col: IM2COL,
        Reduce: REDUCE,
        Transpose: TRANSPOSE,
    }
)
"""Lowerings by loops, for every target; preferences are in the target's table."""
