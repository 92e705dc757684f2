"""`T.reduce` with a function by threads: a warp per line, the elements of which its lanes share, or a thread per line.

Takes folds of tiles that all threads can reach, emits what the executing thread does.
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
from tilelang.ops.lines import LineFold
from tilelang.targets.gpu.lowerings.lines import At, LineLowering, Lines, values, zeros


class SimtLineFold(LineLowering):
    """Folds by shuffles within warps."""

    name = "reduce.lines"

    def lower(self, op: LineFold, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """Emits the lines that the executing thread has a part in."""
        _LineFold(op, context, build).lower()


class _LineFold:
    def __init__(self, op: LineFold, context: LoweringContext, build: Builder) -> None:
        self._op, self._lines = op, Lines(op, context, build)

    def lower(self) -> None:
        self._lines.share(self._by_warp, self._by_thread)

    def _write(self, line: At, what: Sequence[Expr]) -> None:
        self._lines.write([(dst, None) for dst in self._op.dsts], line, what)

    def _by_thread(self, line: At) -> None:
        lines = self._lines

        def fold() -> None:
            running = lines.scalars("folded", lines.read(line, ZERO))
            lines.loop(
                "k",
                const(1, INT32),
                lines.extent,
                lambda k: lines.assign(running, self._op.combine(values(running), lines.read(line, k))),
            )
            self._write(line, values(running))

        lines.when(lines.extent > 0, fold)

    def _by_warp(self, line: At, lane: Expr) -> None:
        lines, op = self._lines, self._op
        lanes = lines.lanes
        known = int_const(lines.extent)
        exists: Expr = (lane < lines.extent) | (known is not None and known >= lanes)
        first = [select(exists, v, z) for v, z in zip(lines.read(line, lane), zeros(op.dtypes), strict=True)]
        folded = lines.scalars("folded", first)
        rounds = (lines.extent + (lanes - 1)) // lanes

        def later(piece: Expr) -> None:
            k = piece * lanes + lane
            here = (k < lines.extent) | (known is not None and known % lanes == 0)
            lines.when(here, lambda: lines.assign(folded, op.combine(values(folded), lines.read(line, k))))

        lines.loop("piece", const(1, INT32), rounds, later)
        count = binary(BinaryOp.MIN, lines.extent, lanes)
        for step in (lanes >> bit for bit in range(1, lanes.bit_length())):
            others = lines.shuffled("down", values(folded), step)
            both = op.combine(values(folded), others)
            reached = lane + step < count if known is None or known < lanes else lane < lanes - step
            lines.assign(folded, [select(reached, b, v) for b, v in zip(both, values(folded), strict=True)])
        lines.when((lane == 0) & (lines.extent > 0), lambda: self._write(line, values(folded)))
