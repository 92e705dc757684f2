"""Inserts layout conversions where a use of a fragment requires another layout than the fragment has.

Takes conflicts, gives a launch in which each such use goes through shared memory: a loop reads and writes a copy in
shared memory, an operator uses a new fragment that is filled from it. Invariant: the semantics are unchanged; the new
loops have no layouts yet.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tilelang.analysis.tile_uses import TileUses
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.stmt import Launch, ParallelLoop, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter, substitute_stmt
from tilelang.layout.boxes import ALIGNMENT
from tilelang.lowering.loops import move, scratch
from tilelang.lowering.regions import whole

Conversions = Mapping[Stmt, Sequence[Buffer]]
"""The fragments to convert at each statement: parallel loops and tile operators."""


def insert_conversions(launch: Launch, conversions: Conversions, uses: TileUses) -> Launch:
    """The launch with conversions, whose tiles its plan counts."""
    convert = _Convert(conversions, uses)
    body = convert.visit(launch.body) or Seq((), loc=launch.body.loc)
    total = launch.plan.conversion_bytes + convert.tile_bytes
    return dataclasses.replace(launch, body=body, plan=dataclasses.replace(launch.plan, conversion_bytes=total))


def cost_in_bytes(buffer: Buffer) -> int:
    """Bytes that a conversion of a fragment moves through shared memory."""
    return math.prod(buffer.static_shape or (0,)) * buffer.dtype.storage_bytes


class _Convert(Rewriter):
    def __init__(self, conversions: Conversions, uses: TileUses) -> None:
        self._conversions, self._uses = conversions, uses
        self.tile_bytes = 0  # of all tiles in shared memory, each with its alignment

    def stmt(self, node: Stmt) -> Stmt | None:
        buffers = self._conversions.get(node, ())
        if not buffers:
            return self.rebuild_stmt(node)
        build = Builder(node.loc)
        new: dict[Buffer, Buffer] = {}
        after: list[tuple[Region, ...]] = []
        for buffer in buffers:
            reads, writes = self._directions(node, buffer)
            shape = buffer.static_shape or ()
            between = scratch(build, f"{buffer.name}_shared", shape, buffer.dtype, Scope.SHARED)
            self.tile_bytes += -(-cost_in_bytes(buffer) // ALIGNMENT) * ALIGNMENT
            steps = [whole(buffer), between]
            if isinstance(node, TileOp):
                steps.append(scratch(build, f"{buffer.name}_moved", shape, buffer.dtype, Scope.FRAGMENT))
            new[buffer] = steps[-1].buffer
            if reads:
                _walk(build, steps)
            if writes:
                after.append(tuple(reversed(steps)))
        build.emit(substitute_stmt(node, {}, new))
        for steps_back in after:
            _walk(build, steps_back)
        return Seq(tuple(build.statements), loc=node.loc)

    def _directions(self, node: Stmt, buffer: Buffer) -> tuple[bool, bool]:
        """Whether a statement reads the previous contents, and whether it writes them."""
        if isinstance(node, TileOp):
            written = [region for region in node.writes() if region.buffer is buffer]
            partly = any(region.static_extent != buffer.static_shape for region in written)
            return partly or any(region.buffer is buffer for region in node.reads()), bool(written)
        uses = [use for use in self._uses.of[buffer].nests if use.nest is node]
        writes = [use for use in uses if use.access.write]
        assert isinstance(node, ParallelLoop)
        whole_tile = any(
            use.map is not None
            and not use.map.free
            and not use.access.context.conditions()
            and use.map.map.in_shape == buffer.static_shape
            for use in writes
        )
        return len(writes) < len(uses) or not whole_tile, bool(writes)


def _walk(build: Builder, steps: Sequence[Region]) -> None:
    for src, dst in zip(steps, steps[1:], strict=False):
        move(build, src, dst)


def replaced(body: Stmt, layouts: Mapping[ParallelLoop, ParallelLoop]) -> Stmt:
    """The body with parallel loops replaced."""
    return _Replace(layouts).visit(body) or Seq((), loc=body.loc)


class _Replace(Rewriter):
    def __init__(self, layouts: Mapping[ParallelLoop, ParallelLoop]) -> None:
        self._layouts = layouts

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, ParallelLoop):
            return self._layouts.get(node, node)
        return self.rebuild_stmt(node)


def interchanged(node: ParallelLoop, order: Sequence[int]) -> ParallelLoop:
    """A parallel nest with its dimensions permuted (loop interchange); iterations are independent."""
    return dataclasses.replace(
        node, vars=tuple(node.vars[axis] for axis in order), extents=tuple(node.extents[axis] for axis in order)
    )
