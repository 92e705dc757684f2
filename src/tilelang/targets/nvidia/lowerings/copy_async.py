"""`T.copy` from global to shared memory by `cp.async`.

Takes a `Copy`, emits the copies of the executing thread without a commit: the pass that inserts the wait commits.
Invariant: every element of the destination is written, with zero where the source has none; neighboring threads copy
neighboring chunks, and a thread's addresses differ from chunk to chunk by a constant wherever sizes allow. Hints to the
L2 cache are not supported; see `isa.cache_policy` for the reason.

Source: PTX ISA, "cp.async": chunks of 4, 8 or 16 bytes, aligned to their size on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tilelang.dtypes import BOOL, INT32
from tilelang.errors import CompilerBug
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Const, Expr, Load, Var, const, int_const
from tilelang.ir.stmt import CallStmt, For, ForKind, If, Store
from tilelang.layout.constraints import Constraint
from tilelang.layout.shared_memory import contiguous_elements
from tilelang.lowering.chunks import ChunkPlan, chunk_at, chunk_elements, chunks_refusal
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import axes, indices
from tilelang.ops.copy import Copy
from tilelang.records import record
from tilelang.targets.nvidia.isa.cp_async import SIZES, cp_async
from tilelang.targets.nvidia.machines import Feature

NAME = "copy.cp_async"
_ZERO = const(0, INT32)
_NO_CHUNKS = "chunks of 4 bytes or more are not proven to be aligned and in one row"


class AsyncCopy:
    """Whole chunks of rows, each by one thread."""

    name = NAME

    def accepts(self, op: Copy, context: LoweringContext) -> ChunkPlan | Refusal:
        """The largest chunks that are aligned and contiguous on both sides, or a refusal."""
        refused = _refused(op, context)
        if refused:
            return Refusal(refused)
        elements = chunk_elements(op, SIZES)
        return ChunkPlan(elements) if elements else Refusal(_NO_CHUNKS)

    def constrain(self, op: Copy, plan: ChunkPlan, context: LoweringContext) -> Iterable[Constraint]:
        """Prefers layouts that keep chunks contiguous; with others, chunks become smaller."""
        return ()

    def lower(self, op: Copy, plan: ChunkPlan, context: LoweringContext, build: Builder) -> None:
        """Emits the executing thread's copies."""
        if context.thread is None:
            raise CompilerBug(f"{NAME}: there are no threads yet")
        layout = context.shared_layouts.get(op.dst.buffer)
        count = plan.elements if layout is None else min(plan.elements, contiguous_elements(layout))
        _Copies(op, count, context.threads, context.thread).emit(build)


def _refused(op: Copy, context: LoweringContext) -> str:
    """Why cp.async cannot do the copy, whatever the chunk size; empty if it may."""
    if not context.target.has(Feature.CP_ASYNC):
        return f"{context.target.arch} has no cp.async"
    refused = chunks_refusal(op, context)
    if refused:
        return refused
    if op.src.static_extent is None or op.dst.static_extent is None:
        return "the extents are not constant"
    if not math.prod(op.dst.static_extent):
        return "there is nothing to copy"
    return ""


@record(slots=True)
class _Copies:
    """The chunks of one copy, numbered row by row."""

    op: Copy
    count: int  # elements per chunk
    threads: int
    thread: Expr

    @property
    def _shape(self) -> tuple[int, ...]:
        """Chunks per dimension that is not a unit."""
        extent = self.op.dst.static_extent or ()
        sizes = [extent[axis] for axis in axes(self.op.dst)]
        return (*sizes[:-1], sizes[-1] // self.count) if sizes else (1,)

    def emit(self, build: Builder) -> None:
        """Emits rounds in which every thread copies a chunk, then a last one under a condition."""
        chunks = math.prod(self._shape)
        rounds, rest = divmod(chunks, self.threads)
        if rounds == 1:
            self._chunk(build, self._coordinates(_ZERO))
        elif rounds:
            step = Var("i", INT32, index=True)
            with build.block() as body:
                self._chunk(build, self._coordinates(step))
            build.emit(For(step, _ZERO, const(rounds, INT32), 1, ForKind.UNROLLED, as_body(body, build.loc)))
        if rest:
            with build.block() as body:
                self._chunk(build, self._coordinates(const(rounds, INT32)))
            build.emit(If(self.thread < rest, as_body(body, build.loc)))

    def _coordinates(self, step: Expr) -> list[Expr]:
        """The coordinates of the thread's chunk in round `step`, in chunks.

        The number of the chunk is `thread + step * threads`. Dimension by dimension from the last, `thread` and
        `step * threads` are divided separately as long as they cannot carry: the thread's part is loop-invariant.
        """
        own, moved, stride = self.thread, step, self.threads
        result: list[Expr] = []
        for extent in reversed(self._shape[1:]):
            if stride % extent == 0:  # all rounds are in the thread's column
                result.append(own % extent)
                own, stride = own // extent, stride // extent
            else:
                number = own + moved * stride
                result.append(number % extent)
                own, moved, stride = number // extent, _ZERO, 0
        number = own if int_const(moved) == 0 or not stride else own + moved * stride
        return [number, *reversed(result)]

    def _chunk(self, build: Builder, at: Sequence[Expr]) -> None:
        op = self.op
        coordinates = list(at) if axes(op.dst) else []
        if coordinates and self.count > 1:
            coordinates[-1] = coordinates[-1] * self.count
        src, dst = indices(op.src, coordinates), indices(op.dst, coordinates)
        width = self.count * op.dst.dtype.storage_bytes
        if width not in SIZES:  # the destination's layout makes chunks too small: copy through registers
            self._elements(build, src, dst)
            return
        source, target = chunk_at(op.src, src, self.count), chunk_at(op.dst, dst, self.count)
        build.emit(CallStmt(cp_async(width), (target, source, Const(True, BOOL)), (source,), (target,)))

    def _elements(self, build: Builder, src: tuple[Expr, ...], dst: tuple[Expr, ...]) -> None:
        for lane in range(self.count):
            source, target = (*src[:-1], src[-1] + lane), (*dst[:-1], dst[-1] + lane)
            build.emit(Store(self.op.dst.buffer, target, Load(self.op.src.buffer, source, self.op.src.dtype)))
