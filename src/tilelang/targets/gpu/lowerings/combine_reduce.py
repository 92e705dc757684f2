"""`T.reduce` with a combine function on GPUs: a warp or a thread per 1-D slice along the dimension.

The operands are in memory that every thread of the block can access.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, binary, const, int_const, select
from tilelang.ir.plan import Plan
from tilelang.ir.scalar import BinaryOp
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import ZERO
from tilelang.ops.combine import CombineReduce
from tilelang.targets.gpu.lowerings.combine import At, CombineLowering, SliceLoops, values, zeros


class SimtCombineReduce(CombineLowering):
    """Reduces a slice within a thread, and across lanes by shuffles."""

    name = "reduce.combine"

    def lower(self, op: CombineReduce, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """Emits the code of the executing thread."""
        _CombineReduce(op, context, build).lower()


class _CombineReduce:
    def __init__(self, op: CombineReduce, context: LoweringContext, build: Builder) -> None:
        self._op, self._slices = op, SliceLoops(op, context, build)

    def lower(self) -> None:
        self._slices.distribute(self._by_warp, self._by_thread)

    def _write(self, at: At, what: Sequence[Expr]) -> None:
        self._slices.write([(dst, None) for dst in self._op.dsts], at, what)

    def _by_thread(self, at: At) -> None:
        slices = self._slices

        def reduce() -> None:
            running = slices.scalars("folded", slices.read(at, ZERO))
            slices.loop(
                "k",
                const(1, INT32),
                slices.extent,
                lambda k: slices.assign(running, self._op.combine(values(running), slices.read(at, k))),
            )
            self._write(at, values(running))

        slices.when(slices.extent > 0, reduce)

    def _by_warp(self, at: At, lane: Expr) -> None:
        slices, op = self._slices, self._op
        lanes = slices.lanes
        constant = int_const(slices.extent)
        exists: Expr = (lane < slices.extent) | (constant is not None and constant >= lanes)
        first = [select(exists, v, z) for v, z in zip(slices.read(at, lane), zeros(op.dtypes), strict=True)]
        running = slices.scalars("folded", first)
        rounds = (slices.extent + (lanes - 1)) // lanes

        def later(piece: Expr) -> None:
            k = piece * lanes + lane
            here = (k < slices.extent) | (constant is not None and constant % lanes == 0)
            slices.when(here, lambda: slices.assign(running, op.combine(values(running), slices.read(at, k))))

        slices.loop("piece", const(1, INT32), rounds, later)
        count = binary(BinaryOp.MIN, slices.extent, lanes)
        for step in (lanes >> bit for bit in range(1, lanes.bit_length())):
            others = slices.shuffled("down", values(running), step)
            both = op.combine(values(running), others)
            reached = lane + step < count if constant is None or constant < lanes else lane < lanes - step
            slices.assign(running, [select(reached, b, v) for b, v in zip(both, values(running), strict=True)])
        slices.when((lane == 0) & (slices.extent > 0), lambda: self._write(at, values(running)))
