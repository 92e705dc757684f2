"""`T.c2d_im2col` by TMA in its im2col mode.

Takes tiles whose columns belong to one tap of the filter window; emits the loads that one thread issues. Invariant: row
i of the tile is the i-th pixel in output order; elements outside of the image or the matrix are zero.

Source: PTX ISA, "Tensors: Im2col mode"; CUDA Driver API, "cuTensorMapEncodeIm2col", for what a map may be.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.dtypes import SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, cast, select
from tilelang.ir.stmt import CallStmt
from tilelang.layout.constraints import Constraint
from tilelang.lowering.alignment import is_multiple
from tilelang.lowering.im2col import name_index, patch
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import ZERO, is_whole, slice_along
from tilelang.ops.im2col import Im2Col
from tilelang.targets.nvidia.isa.tensor_box import CORNERS, IMAGE_RANK, MAX_OFFSET, MAX_PIXELS, MAX_STEP, map_fault
from tilelang.targets.nvidia.isa.tma import tma_load
from tilelang.targets.nvidia.lowerings.copy_tma import (
    TmaPlan,
    boxes_of,
    by_one_thread,
    in_boxes,
    pitches,
    policy_of,
    tma_refusal,
    widest_swizzle,
)
from tilelang.targets.nvidia.requests import COPY_TMA_LOAD

_UINT16 = SCALARS["uint16"]


class TmaIm2Col:
    """Loads pixels of an image into shared memory; completes on the operator's barrier."""

    name = COPY_TMA_LOAD

    def accepts(self, op: Im2Col, context: LoweringContext) -> TmaPlan | Refusal:
        """The layout of the tile, or a refusal."""
        if op.barrier is None:
            return Refusal("no barrier counts its bytes")
        refused = tma_refusal(op, op.src, op.dst, context) or _window_refusal(op)
        return Refusal(refused) if refused else TmaPlan(widest_swizzle(op.dst))

    def constrain(self, op: Im2Col, plan: TmaPlan, context: LoweringContext) -> Iterable[Constraint]:
        """The layout of the shared tile is in boxes."""
        return in_boxes(op, op.dst, plan)

    def lower(self, op: Im2Col, plan: TmaPlan, context: LoweringContext, build: Builder) -> None:
        """One thread issues a load for each box of columns."""
        by_one_thread(context, build, lambda: _start(op, context, build), op.leaders or 0)


def _window_refusal(op: Im2Col) -> str:
    """Why TMA's im2col mode cannot load the tile; empty if it can."""
    reach = op.dilation * (op.kernel - 1)
    rows, columns = (op.dst.static_extent or (0, 0))[-2:]
    if op.multicast_mask is not None or op.part is not None:
        return "im2col loads are not multicast"
    if not is_whole(op.src):
        return "a part of a tensor is no image"
    if columns != (op.dst.buffer.static_shape or ())[-1]:
        return "the tile is a part of its buffer"
    if not is_multiple(op.src.extent[-1], columns):
        return f"{columns} columns are not proven to belong to one tap of the window"
    if rows > MAX_PIXELS:
        return f"{rows} rows are more than {MAX_PIXELS}"
    if op.stride > MAX_STEP or -op.pad not in CORNERS or op.pad - reach not in CORNERS or reach > MAX_OFFSET:
        return "the window, or its stride, is larger than TMA supports"
    return ""


def _start(op: Im2Col, context: LoweringContext, build: Builder) -> None:
    if op.barrier is None:
        raise CompilerBug(f"{COPY_TMA_LOAD}: chosen for an im2col without a barrier")
    rows, columns = (op.dst.static_extent or (0, 0))[-2:]
    batch, channels, boxes = op.src.extent[0], op.src.extent[-1], boxes_of(op.dst, context)
    first = patch(op, ZERO, build)
    k = name_index(build, "k", op.column_tile * columns)
    tap = name_index(build, "tap", k // channels)
    # after the last tap there are no columns: no image has this number
    number = select(tap < op.kernel * op.kernel, first.n, batch)
    offsets = [cast(at * op.dilation, _UINT16) for at in (tap % op.kernel, tap // op.kernel)]
    corner = (-op.pad, op.pad - op.dilation * (op.kernel - 1), op.stride)
    dims, steps = tuple(reversed(op.src.buffer.shape)), pitches(op.src.buffer)[1:]
    extents, pixels = (boxes.columns, rows), (corner, corner)
    box = context.tensor_map(op.src.buffer, dims, steps, extents, boxes.mode_bytes, map_fault, pixels)
    policy = policy_of(op, build)
    for begin in range(0, columns, boxes.columns):
        shared = slice_along(op.dst, len(op.dst.extent) - 1, begin, boxes.columns)
        at = (k % channels + begin, first.left, first.top, number)
        args: tuple[Expr | Region, ...] = (shared, box, op.barrier, *at, *offsets, *policy)
        load = tma_load(IMAGE_RANK, pixels=True, hint=bool(policy))
        build.emit(CallStmt(load, args, (op.src,), (shared,)))
