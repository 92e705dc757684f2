"""`T.cumsum`, `T.cummax` and `T.associative_scan` by threads: a warp per line, or a thread per line.

Takes scans of tiles that all threads can reach, emits what the executing thread does. Invariant: the element that a
thread writes is the one it has read before, so that a scan may be in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, int_const, select
from tilelang.ir.plan import Plan
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import ZERO, matching_axes
from tilelang.ops.scan import Scan
from tilelang.targets.gpu.lowerings.lines import At, LineLowering, Lines, values, zeros


class SimtScan(LineLowering):
    """Scans by shuffles within warps."""

    name = "scan.simt"

    def lower(self, op: Scan, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """Emits the lines that the executing thread has a part in."""
        _Scan(op, context, build).lower()


class _Scan:
    def __init__(self, op: Scan, context: LoweringContext, build: Builder) -> None:
        self._op, self._lines = op, Lines(op, context, build)
        self._targets = [(dst, matching_axes(op.srcs[0], dst, op.dim)) for dst in op.dsts]

    def lower(self) -> None:
        self._lines.share(self._by_warp, self._by_thread)

    def _place(self, k: Expr) -> Expr:
        return self._lines.extent - 1 - k if self._op.reverse else k

    def _write(self, line: At, k: Expr, what: Sequence[Expr]) -> None:
        self._lines.write(self._targets, (*line, self._place(k)), what)

    def _onto(self, before: Sequence[Expr], here: Sequence[Expr], is_first: Expr) -> Sequence[Expr]:
        """Values with all before them folded in; the first have none before them."""
        folded = self._op.combine(before, here)
        if self._op.exclusive:
            return folded
        return [select(is_first, value, total) for value, total in zip(here, folded, strict=True)]

    def _by_thread(self, line: At) -> None:
        lines, op = self._lines, self._op
        running = lines.scalars("running", op.init or zeros(op.dtypes))

        def element(k: Expr) -> None:
            here = [lines.bound("here", value) for value in lines.read(line, self._place(k))]
            if op.exclusive:
                self._write(line, k, values(running))
            lines.assign(running, self._onto(values(running), here, k == 0))
            if not op.exclusive:
                self._write(line, k, values(running))

        lines.loop("k", ZERO, lines.extent, element)

    def _by_warp(self, line: At, lane: Expr) -> None:
        carry = self._lines.scalars("carry", self._op.init or zeros(self._op.dtypes))
        lanes = self._lines.lanes
        pieces = (self._lines.extent + (lanes - 1)) // lanes

        def neighbors(piece: Expr) -> None:
            """As many neighbors as a warp has lanes: folded with all before them in log steps."""
            lines, op = self._lines, self._op
            k = piece * lanes + lane
            known = int_const(lines.extent)
            exists: Expr = (k < lines.extent) | (known is not None and known % lanes == 0)
            here = lines.read(line, self._place(k))
            value = lines.scalars("value", [select(exists, v, z) for v, z in zip(here, zeros(op.dtypes), strict=True)])
            for step in (1 << bit for bit in range(lanes.bit_length() - 1)):
                below = lines.shuffled("up", values(value), step)
                folded = op.combine(below, values(value))
                lines.assign(value, [select(lane >= step, f, v) for f, v in zip(folded, values(value), strict=True)])
            lines.assign(value, self._onto(values(carry), values(value), piece == 0))
            if op.exclusive:
                below = lines.shuffled("up", values(value), 1)
                shown: Sequence[Expr] = [
                    lines.bound("before", select(lane == 0, c, b)) for c, b in zip(values(carry), below, strict=True)
                ]
            else:
                shown = values(value)
            lines.when(exists, lambda: self._write(line, k, shown))
            lines.assign(carry, lines.shuffled("idx", values(value), lanes - 1))

        self._lines.loop("piece", ZERO, pieces, neighbors)
