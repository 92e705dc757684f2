"""`T.copy` of whole tiles by TMA, the copy engine.

Takes copies between global and shared memory, emits the instructions, which one thread issues. A load completes its
bytes on an mbarrier, a store belongs to a bulk group that the program waits for. Accesses have no bounds checks: TMA
loads zero for elements out of bounds and drops stores to them.

A tile in shared memory is a sequence of boxes (`layout.boxes`); one instruction copies a box, or all boxes of the
tile's columns where the tensor's rows are a whole number of them.

Source: PTX ISA, "cp.async.bulk.tensor"; CUDA Driver API, "cuTensorMapEncodeTiled", for what a map may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Var, cast, const, int_const
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import CallStmt, If, TileOp
from tilelang.layout.boxes import PERIOD_ROWS, Boxes, boxed, find_boxes, fits
from tilelang.layout.constraints import Constraint, Reason, SharedLayout
from tilelang.layout.shared_memory import row_major
from tilelang.layout.xor_swizzle import MODES
from tilelang.lowering.alignment import is_multiple, starts_aligned, strides
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import ZERO, axes, slice_along
from tilelang.ops.copy import Copy
from tilelang.records import record
from tilelang.targets.nvidia.isa.cache_policy import NORMAL, l2_policy
from tilelang.targets.nvidia.isa.cluster import CLUSTER_RANK
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_EXPECT_TX
from tilelang.targets.nvidia.isa.tensor_box import BOX_ALIGNMENT, CHUNK_BYTES, MAX_RANK, MAX_SIDE, map_fault
from tilelang.targets.nvidia.isa.tma import tma_load
from tilelang.targets.nvidia.lowerings.elect_one import ElectOne
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.requests import COPY_TMA_LOAD

_SIZES = (1, 2, 4, 8)  # bytes of an element. Source: CUDA Driver API, enum CUtensorMapDataType


@record
class TmaPlan(Plan):
    """The preferred layout of a tile that TMA copies.

    Attributes:
        swizzle: Bytes within which its rows are permuted; 0 for none.
    """

    swizzle: int


class TmaLoad(ElectOne):
    """Loads boxes of a tensor into shared memory; completes on the operator's barrier.

    For `T.tma_copy` it also expects the bytes there (`mbarrier.expect_tx`).
    """

    name = COPY_TMA_LOAD

    def accepts(self, op: Copy, context: LoweringContext) -> TmaPlan | Refusal:
        """The layout of the tile, or a refusal."""
        refused = (
            ("no barrier counts its bytes" if op.barrier is None else "")
            or tma_refusal(op, op.src, op.dst, context)
            or extent_refusal(op.src)
            or _parts_refusal(op, context)
        )
        return Refusal(refused) if refused else TmaPlan(widest_swizzle(op.dst))

    def constrain(self, op: Copy, plan: TmaPlan, context: LoweringContext) -> Iterable[Constraint]:
        """The shared tile lies in boxes."""
        return in_boxes(op, op.dst, plan)

    def lower(self, op: Copy, plan: TmaPlan, context: LoweringContext, build: Builder) -> None:
        """One thread issues all boxes."""
        barrier = op.barrier
        if barrier is None:
            raise CompilerBug(f"{COPY_TMA_LOAD}: chosen for a copy without a barrier")

        def start(*multicast_mask: Expr) -> None:
            for box in tma_boxes(*_own_part(op, context), context, rounds=op.rounds):
                args: tuple[Expr | Region, ...] = (box.shared, box.map, barrier, *box.at, *multicast_mask, *policy)
                load = tma_load(len(box.at), multicast=bool(multicast_mask), hint=bool(policy))
                build.emit(CallStmt(load, args, (box.tensor,), (box.shared,)))

        policy: tuple[Expr, ...] = ()

        def emit() -> None:
            nonlocal policy
            if op.request:
                size = math.prod(op.dst.static_extent or ()) * op.dst.dtype.storage_bytes
                build.emit(CallStmt(MBARRIER_EXPECT_TX, (barrier, const(size, INT32))))
            policy = policy_of(op, build)
            if op.multicast_mask is None:
                start()
            elif op.request:
                _by_lowest_rank(int_const(op.multicast_mask) or 1, build, start)
            else:
                start(cast(op.multicast_mask, SCALARS["uint16"]))

        by_one_thread(context, build, emit, op.leaders or 0)


def policy_of(op: Copy, build: Builder) -> tuple[Expr, ...]:
    """The operand with the L2 cache policy of a copy; none for the default policy."""
    if op.cache_policy is not None:
        return (op.cache_policy,)
    if op.eviction is None or op.eviction == NORMAL:
        return ()
    policy = Var("policy", SCALARS["uint64"])
    build.emit(CallStmt(l2_policy(op.eviction), (), result=policy))
    return (policy,)


def tma_refusal(op: Copy, tensor: Region, tile: Region, context: LoweringContext) -> str:
    """Why TMA cannot copy a tile between a tensor and shared memory; empty if it can."""
    if not context.target.has(Feature.TMA):
        return f"{context.target.arch} has no copy engine for tiles"
    if not op.allow_bulk:
        return "the copy does not allow it"
    if tensor.buffer.scope is not Scope.GLOBAL or tile.buffer.scope is not Scope.SHARED:
        return "copies between global and shared memory only"
    if tensor.dtype != tile.dtype:
        return f"does not convert {op.src.dtype!s} to {op.dst.dtype!s}"
    if op.layout is not None or op.coalesced_width is not None:
        return "the user fixes which thread copies what"
    explicit = op.request is not None
    refusal = _tensor_refusal(tensor, explicit=explicit) or _tile_refusal(tile, context, explicit=explicit)
    return refusal or _layout_refusal(tile, context)


def extent_refusal(tensor: Region) -> str:
    """Why TMA cannot copy so much of a tensor; empty if it can."""
    return "the extents are not constant" if tensor.static_extent is None else ""


def _tensor_refusal(tensor: Region, *, explicit: bool) -> str:
    """Why no tensor map can describe a tensor, or no box can begin at the start of the region; empty if they can.

    An explicit request for TMA promises the alignment of starts that are not constant.
    """
    buffer, size = tensor.buffer, tensor.dtype.storage_bytes
    if buffer.storage.address is not None:
        return "the host has no descriptor of the tensor, which is given by an address"
    if size not in _SIZES or tensor.dtype.lanes != 1:
        return f"a map has no elements of {tensor.dtype!s}"
    if not 1 <= buffer.rank <= MAX_RANK:
        return f"the tensor has {buffer.rank} dimensions, and a map 1 to {MAX_RANK}"
    if not starts_aligned(buffer, CHUNK_BYTES):
        return f"the tensor is not proven to begin at a multiple of {CHUNK_BYTES} bytes"
    *outer, inner = strides(buffer)
    if axes(tensor)[-1:] != (buffer.rank - 1,):
        return "the last dimension is not the one that is contiguous in memory"
    if int_const(inner) != 1:
        return "neighbors along the last dimension are not neighbors in memory"
    if not all(is_multiple(step * size, CHUNK_BYTES) for step in outer):
        return f"a stride of the tensor is not proven to be a multiple of {CHUNK_BYTES} bytes"
    first = tensor.start[-1]
    if not is_multiple(first * size, CHUNK_BYTES) and not (explicit and int_const(first) is None):
        return f"what is copied is not proven to begin at a multiple of {CHUNK_BYTES} bytes of a row"
    return ""


def _tile_refusal(tile: Region, context: LoweringContext, *, explicit: bool) -> str:
    """Why boxes do not cover a tile, or the part of a tile that is copied; empty if they do."""
    extent, shape = tile.static_extent, tile.buffer.static_shape
    if extent is None or shape is None:
        return "the extents are not constant"
    kept = axes(tile)
    if not kept or kept[-1] != len(shape) - 1:
        return "the last dimension is not the one that is contiguous in memory"
    columns, size = shape[-1], tile.dtype.storage_bytes
    some = _is_front(tile) or _is_in_boxes(tile, _box_columns(tile, context))
    whole = extent[kept[0] : -1] == shape[kept[0] : -1] or _has_some_rows(tile, shape)
    is_box = whole and (extent[-1] == shape[-1] or some)
    if not is_box or tile.buffer.view_of is not None and not explicit or tile.buffer.strides is not None:
        return "the tile is a part of its buffer"
    if len(kept) > 1 and kept[-2] != len(shape) - 2:
        return "the dimension before the last is a unit"
    if columns * size % CHUNK_BYTES:
        return f"rows of {columns * size} bytes are no multiple of {CHUNK_BYTES}"
    matrix = math.prod(shape[axis] for axis in kept[-2:]) * size
    if matrix % BOX_ALIGNMENT and matrix < math.prod(shape) * size:
        return f"tiles of {matrix} bytes, of which a buffer has several, are no multiple of {BOX_ALIGNMENT}"
    if not _mode(shape, size) and not _longest(columns, BOX_ALIGNMENT // size if len(kept) == 1 else columns):
        return f"rows of {columns} elements are longer than a box"
    if len(kept) > 1 and not _longest(shape[-2], PERIOD_ROWS):
        return f"{shape[-2]} rows are more than a box has, and no multiple of {PERIOD_ROWS}"
    return ""


def _layout_refusal(tile: Region, context: LoweringContext) -> str:
    """Why TMA cannot access a tile whose layout is fixed already; empty if it can."""
    if tile.buffer not in context.shared_layouts:
        return ""
    boxes = _find(tile, context)
    if boxes is None:
        return f"'{tile.buffer.name}' has a layout that the copy engine does not write"
    if len(axes(tile)) > 1 and boxes.columns > MAX_SIDE:
        return f"'{tile.buffer.name}' has a layout with rows of {boxes.columns} elements, longer than a box"
    if not boxes.mode_bytes and (tile.static_extent or ())[-1:] != (tile.buffer.static_shape or ())[-1:]:
        return f"'{tile.buffer.name}' has a layout without a swizzle, where rows cannot be left unfinished"
    if int_const(tile.start[-1]) != 0 and not _is_in_boxes(tile, boxes.columns):
        return f"'{tile.buffer.name}' has a layout in boxes of {boxes.columns} columns, and this is no number of them"
    return ""


def _is_in_boxes(tile: Region, columns: int) -> bool:
    """Whether a tile is a whole number of boxes of rows that are cut into them."""
    extent = (tile.static_extent or (0,))[-1]
    return columns > 0 and extent % columns == 0 and is_multiple(tile.start[-1], columns)


def _has_some_rows(tile: Region, shape: tuple[int, ...]) -> bool:
    """Whether a tile is some of the rows of a buffer, from a row at which a swizzle period or aligned box begins."""
    kept, extent = axes(tile), tile.static_extent or ()
    if len(kept) < 2 or extent[kept[0] : -2] != shape[kept[0] : -2]:
        return False
    start, row = tile.start[-2], shape[-1] * tile.dtype.storage_bytes
    mode = _mode(shape, tile.dtype.storage_bytes)
    return is_multiple(start, PERIOD_ROWS) if mode else is_multiple(start * row, BOX_ALIGNMENT)


def _is_front(tile: Region) -> bool:
    """Whether a tile is a prefix of the columns of its buffer, for which TMA copies a box with fewer columns.

    Source: measured on an H200, for boxes with a swizzle.
    """
    shape, columns, size = tile.buffer.static_shape or (), (tile.static_extent or (0,))[-1], tile.dtype.storage_bytes
    return int_const(tile.start[-1]) == 0 and columns * size % CHUNK_BYTES == 0 and _mode(shape, size) > 0


def widest_swizzle(tile: Region) -> int:
    """The widest swizzle of a tile for TMA, in bytes; 0 for none, as for a single row, which starts within a period."""
    return _mode(tile.buffer.static_shape or (), tile.dtype.storage_bytes) if len(axes(tile)) > 1 else 0


def in_boxes(op: TileOp, tile: Region, plan: TmaPlan) -> Iterable[Constraint]:
    """The layout of a tile that TMA copies."""
    shape = tile.buffer.static_shape or ()
    if len(shape) > 1:
        bits, swizzle = tile.dtype.storage_bytes * 8, plan.swizzle
        layout = boxed(shape[-2:], bits, swizzle) if swizzle else row_major(shape[-2:])
        yield SharedLayout(tile.buffer, layout, Reason(f"{op.name} moves it by the copy engine", op.loc))


def _mode(shape: tuple[int, ...], size: int) -> int:
    """The widest swizzle that a tile allows, in bytes; 0 for none."""
    return next((mode for mode in MODES if fits(shape, size * 8, mode)), 0)


def _box_columns(tile: Region, context: LoweringContext) -> int:
    """The columns of the boxes of a tile, or of those that it will have; 0 where these have no swizzle."""
    boxes = _find(tile, context) if tile.buffer in context.shared_layouts else None
    size = tile.dtype.storage_bytes
    return _mode(tile.buffer.static_shape or (), size) // size if boxes is None else boxes.columns


def _longest(length: int, unit: int) -> int:
    """The longest side of boxes that together have this length: all of it, or a multiple of `unit`; 0 if none is."""
    if length <= MAX_SIDE:
        return length
    return next((part for part in range(MAX_SIDE, 0, -1) if length % part == 0 and part % unit == 0), 0)


# -- parts ---------------------------------------------------------------------------------------------------------
def _parts_refusal(op: Copy, context: LoweringContext) -> str:
    """Why TMA cannot load parts of a tile by multicast; empty if it can."""
    shape = op.dst.static_extent or ()
    if op.part is None:
        return ""
    if len(axes(op.dst)) < 2:
        return "a tile of one dimension has no parts"
    if _cut(shape, op.parts, _box_columns(op.dst, context) or shape[-1]) is None:
        rows, columns = shape[-2:]
        return f"{op.parts} blocks cannot load equal parts of {rows} rows and {columns} columns"
    return ""


def _cut(shape: tuple[int, ...], parts: int, columns: int) -> int | None:
    """The dimension along which a tile in boxes of `columns` columns has `parts` parts: -1 or -2; None if neither."""
    if shape[-1] % (parts * columns) == 0:
        return -1  # whole boxes, which one instruction may move
    return -2 if shape[-2] % (parts * PERIOD_ROWS) == 0 else None


def _own_part(op: Copy, context: LoweringContext) -> tuple[Region, Region]:
    """The parts of the tensor and of the tile that the executing block loads."""
    tensor, tile = op.src, op.dst
    if op.part is None:
        return tensor, tile
    axis = _cut(tile.static_extent or (), op.parts, boxes_of(tile, context).columns)
    if axis is None:
        raise CompilerBug(f"'{tile.buffer.name}': its layout has no parts")
    share = (tile.static_extent or ())[axes(tile)[axis]] // op.parts
    first = op.part * share
    return slice_along(tensor, axes(tensor)[axis], first, share), slice_along(tile, axes(tile)[axis], first, share)


# -- boxes ---------------------------------------------------------------------------------------------------------
@record(slots=True)
class _Box:
    """The box that one instruction copies.

    Attributes:
        map: The name of the map.
        at: Where the box begins in the map, innermost coordinate first.
        shared: The box in shared memory.
        tensor: What it covers of the tensor.
    """

    map: Expr
    at: tuple[Expr, ...]
    shared: Region
    tensor: Region


def tma_boxes(tensor: Region, tile: Region, context: LoweringContext, *, rounds: bool = False) -> Iterator[_Box]:
    """The boxes of the instructions that copy a tile, matrix by matrix; `rounds` elements of tfloat32."""
    shape, size = (1, *(tile.buffer.static_shape or ())), tile.dtype.storage_bytes
    boxes = boxes_of(tile, context)
    extent = tile.static_extent or ()
    pairs = list(zip(axes(tensor), axes(tile), strict=True))
    leading, matrix = pairs[:-2], pairs[-2:]
    for index in product(*(range(extent[axis]) for _, axis in leading)):
        pieces = [(pair, at, 1) for pair, at in zip(leading, index, strict=True)]
        whole = [(pair, 0, extent[pair[1]]) for pair in matrix]
        rows = extent[matrix[0][1]] if len(matrix) > 1 else 1
        even = shape[-1] > boxes.columns and extent[-1] % boxes.columns == 0
        if even and _divides(tensor, boxes.columns) and rows == shape[-2] <= MAX_SIDE:
            yield _side_by_side(tensor, tile, [*pieces, *whole], boxes, context, rounds)
            continue
        lengths = [_longest(rows, PERIOD_ROWS), _longest(boxes.columns, BOX_ALIGNMENT // size)][-len(matrix) :]
        steps = [
            [(pair, at, min(part, length - at)) for at in range(0, length, part)]
            for (pair, _, length), part in zip(whole, lengths, strict=True)
        ]
        for parts in product(*steps):
            yield _single(tensor, tile, [*pieces, *parts], boxes, context, rounds)


def _find(tile: Region, context: LoweringContext) -> Boxes | None:
    """Divide a tile into boxes; None if its layout does not allow it."""
    shape = tile.buffer.static_shape or ()
    rows = shape if len(shape) > 1 else (1, *shape)
    boxes = find_boxes(context.shared_layouts.get(tile.buffer), rows, tile.dtype.storage_bytes * 8)
    if boxes is None or not boxes.mode_bytes or len(axes(tile)) > 1:
        return boxes
    # a single row would begin within a swizzle, but for the first one, whose chunks stay in place
    first = axes(tile) == (len(shape) - 1,) and is_multiple(tile.start[-2], PERIOD_ROWS)
    return Boxes(0, boxes.columns) if first else None


def boxes_of(tile: Region, context: LoweringContext) -> Boxes:
    """Divide a tile into boxes."""
    boxes = _find(tile, context)
    if boxes is None:
        raise CompilerBug(f"'{tile.buffer.name}': its layout is not one that the copy engine writes")
    return boxes


_Piece = tuple[tuple[int, int], int, int]  # a dimension of the tensor and of the tile, where a part begins, its length


def _single(
    tensor: Region, tile: Region, parts: Sequence[_Piece], boxes: Boxes, context: LoweringContext, rounds: bool
) -> _Box:
    """A box whose dimensions are those of the tensor."""
    covered, shared = _covered(tensor, tile, parts)
    steps = pitches(tensor.buffer)[1:]
    sizes = tuple(reversed(tensor.buffer.shape))
    extent = tuple(reversed(covered.static_extent or ()))
    name = context.tensor_map(tensor.buffer, sizes, steps, extent, boxes.mode_bytes, map_fault, rounds=rounds)
    return _Box(name, tuple(reversed(covered.start)), shared, covered)


def _side_by_side(
    tensor: Region, tile: Region, parts: Sequence[_Piece], boxes: Boxes, context: LoweringContext, rounds: bool
) -> _Box:
    """A box with a dimension more, along which the boxes of the tile's columns follow each other.

    It stands after the rows, since that is the order in shared memory.
    """
    covered, shared = _covered(tensor, tile, parts)
    columns, size = boxes.columns, tensor.dtype.storage_bytes
    row = tensor.buffer.rank - axes(covered)[-2] if len(axes(covered)) > 1 else 1
    sizes, steps = list(reversed(tensor.buffer.shape)), list(pitches(tensor.buffer))
    at, extent = list(reversed(covered.start)), list(reversed(covered.static_extent or ()))
    sizes.insert(row, sizes[0] // columns)
    steps.insert(row, const(columns * size, INT32))
    at.insert(row, at[0] // columns)
    extent.insert(row, extent[0] // columns)
    sizes[0], at[0], extent[0] = const(columns, INT32), ZERO, columns
    name = context.tensor_map(tensor.buffer, sizes, steps[1:], extent, boxes.mode_bytes, map_fault, rounds=rounds)
    return _Box(name, tuple(at), shared, covered)


def _divides(tensor: Region, columns: int) -> bool:
    """Whether rows of a tensor, and what of them is moved, are whole numbers of boxes."""
    within = tensor.buffer.rank < MAX_RANK
    return within and is_multiple(tensor.start[-1], columns) and is_multiple(tensor.buffer.shape[-1], columns)


def pitches(buffer: Buffer) -> tuple[Expr, ...]:
    """Bytes between neighbors along each dimension, the innermost first."""
    return tuple(step * buffer.dtype.storage_bytes for step in reversed(strides(buffer)))


def _covered(tensor: Region, tile: Region, parts: Sequence[_Piece]) -> tuple[Region, Region]:
    """Return the regions of the tensor and of the tile that pieces cover."""

    def part(region: Region, side: int) -> Region:
        start, extent = list(region.start), [const(1, INT32) for _ in region.start]
        for pair, at, length in parts:
            start[pair[side]] = start[pair[side]] + at if at else start[pair[side]]
            extent[pair[side]] = const(length, INT32)
        return Region(region.buffer, tuple(start), tuple(extent))

    return part(tensor, 0), part(tile, 1)


def _by_lowest_rank(mask: int, build: Builder, start: Callable[..., None]) -> None:
    """Issues multicast loads in the block of lowest rank in the mask; blocks that are not in the mask load alone."""
    rank = Var("rank", INT32)
    build.emit(CallStmt(CLUSTER_RANK, (), result=rank))
    with build.block() as for_all:
        start(const(mask, SCALARS["uint16"]))
    with build.block() as own:
        start()
    named = ((const(mask, INT32) >> rank) & 1) == 0
    others = If(named, as_body(own, build.loc))
    build.emit(If(rank == (mask & -mask).bit_length() - 1, as_body(for_all, build.loc), others))


def by_one_thread(context: LoweringContext, build: Builder, emit: Callable[[], None], each: int = 0) -> None:
    """Emits a body that one of the executing threads runs, or one of each `each` threads if that is not 0."""
    if context.thread is None:
        raise CompilerBug("copy engine: there are no threads yet")
    if context.threads == 1:
        emit()
        return
    with build.block() as body:
        emit()
    chosen = context.thread if each in (0, context.threads) else context.thread % each
    build.emit(If(chosen == 0, as_body(body, build.loc)))
