"""`T.cumsum`, `T.cummax` and `T.associative_scan` on GPUs: a warp or a thread per 1-D slice.

The operands are in memory that every thread of the block can access. Invariant: a thread stores only elements that it
has loaded before, so that a scan may be in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, int_const, select
from tilelang.ir.plan import Plan
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import ZERO, matching_axes
from tilelang.ops.scan import Scan
from tilelang.targets.gpu.lowerings.combine import At, CombineLowering, SliceLoops, values, zeros


class SimtScan(CombineLowering):
    """Scans a slice within a thread, or across the lanes of a warp by shuffles."""

    name = "scan.simt"

    def lower(self, op: Scan, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """Emits the code of the executing thread."""
        _Scan(op, context, build).lower()


class _Scan:
    def __init__(self, op: Scan, context: LoweringContext, build: Builder) -> None:
        self._op, self._slices = op, SliceLoops(op, context, build)
        self._targets = [(dst, matching_axes(op.srcs[0], dst, op.dim)) for dst in op.dsts]

    def lower(self) -> None:
        self._slices.distribute(self._by_warp, self._by_thread)

    def _place(self, k: Expr) -> Expr:
        return self._slices.extent - 1 - k if self._op.reverse else k

    def _write(self, at: At, k: Expr, what: Sequence[Expr]) -> None:
        self._slices.write(self._targets, (*at, self._place(k)), what)

    def _combined(self, before: Sequence[Expr], here: Sequence[Expr], is_first: Expr) -> Sequence[Expr]:
        """`combine(before, here)`; in an inclusive scan `here` for the first element."""
        combined = self._op.combine(before, here)
        if self._op.exclusive:
            return combined
        return [select(is_first, value, total) for value, total in zip(here, combined, strict=True)]

    def _by_thread(self, at: At) -> None:
        slices, op = self._slices, self._op
        running = slices.scalars("running", op.init or zeros(op.dtypes))

        def element(k: Expr) -> None:
            here = [slices.bound("here", value) for value in slices.read(at, self._place(k))]
            if op.exclusive:
                self._write(at, k, values(running))
            slices.assign(running, self._combined(values(running), here, k == 0))
            if not op.exclusive:
                self._write(at, k, values(running))

        slices.loop("k", ZERO, slices.extent, element)

    def _by_warp(self, at: At, lane: Expr) -> None:
        carry = self._slices.scalars("carry", self._op.init or zeros(self._op.dtypes))
        lanes = self._slices.lanes
        pieces = (self._slices.extent + (lanes - 1)) // lanes

        def scan_piece(piece: Expr) -> None:
            """Scans as many elements as a warp has lanes, in log2 steps."""
            slices, op = self._slices, self._op
            k = piece * lanes + lane
            constant = int_const(slices.extent)
            exists: Expr = (k < slices.extent) | (constant is not None and constant % lanes == 0)
            here = slices.read(at, self._place(k))
            value = slices.scalars("value", [select(exists, v, z) for v, z in zip(here, zeros(op.dtypes), strict=True)])
            for step in (1 << bit for bit in range(lanes.bit_length() - 1)):
                below = slices.shuffled("up", values(value), step)
                combined = op.combine(below, values(value))
                slices.assign(value, [select(lane >= step, f, v) for f, v in zip(combined, values(value), strict=True)])
            slices.assign(value, self._combined(values(carry), values(value), piece == 0))
            if op.exclusive:
                below = slices.shuffled("up", values(value), 1)
                shown: Sequence[Expr] = [
                    slices.bound("before", select(lane == 0, c, b)) for c, b in zip(values(carry), below, strict=True)
                ]
            else:
                shown = values(value)
            slices.when(exists, lambda: self._write(at, k, shown))
            slices.assign(carry, slices.shuffled("idx", values(value), lanes - 1))

        self._slices.loop("piece", ZERO, pieces, scan_piece)
