"""Which bytes a box of a tensor map names, in the tensor and in shared memory, and what a map must look like.

Takes the numbers of a map, gives `Pieces` and complaints. Invariant: the n-th piece of a box in the tensor and the n-th
in shared memory are the two ends of one movement; a box has as many bytes in shared memory however much of it lies
outside of the tensor.

Source: CUDA Driver API, "cuTensorMapEncodeTiled" and "cuTensorMapEncodeIm2col"; PTX ISA, "Tensors: Im2col mode" and
"Swizzling modes"; the permutation of chunks was verified on an H200.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tilelang.ir.scalar import round_tf32
from tilelang.isa.simulated import Pieces, TensorMapView

CHUNK_BYTES = 16  # what a swizzle moves, and what addresses, strides and the rows of a box are multiples of
BOX_ALIGNMENT = 128  # bytes; of a box in shared memory. Source: PTX ISA, "cp.async.bulk.tensor"
MAX_RANK = 5
MAX_SIDE = 256  # elements of a box along one dimension
IMAGE_RANK = 4  # dimensions of a map of pixels: channels, two spatial ones, images
MAX_PIXELS = 1024  # of a box of pixels
CORNERS = range(-128, 128)  # of the base pixels of an image with two spatial dimensions
MAX_STEP = 8  # between base pixels
MAX_OFFSET = 255  # from a base pixel to the one that is read
_MAX_EXTENT = 1 << 32
_MAX_STRIDE = 1 << 40
_PERMUTED = {0: 0, 32: 1, 64: 3, 128: 7}  # span of a swizzle: which bits of the number of a 128-byte line it mixes in
SWIZZLES = tuple(_PERMUTED)
_NAN = np.uint32(0x7FFFE000).view(np.float32)


def swizzled(addresses: np.ndarray, span: int) -> np.ndarray:
    """Where bytes of shared memory lie that would lie at these addresses without a swizzle. Any shape.

    The number of the 16-byte chunk within the span is mixed with that of the 128-byte line, both counted from the
    beginning of shared memory, wherever the box begins.
    """
    out: np.ndarray = addresses ^ ((addresses >> 7 & _PERMUTED[span]) << 4)
    return out


def shared_pieces(view: TensorMapView, address: int, size: int) -> np.ndarray:
    """Where the pieces of a box lie in shared memory, for a box that begins at this address. Shape (n,), int64."""
    return _shared(math.prod(view.box[1:]), view.box[0] * view.itemsize, address, size, view.swizzle)


@lru_cache(maxsize=256)
def _shared(rows: int, row: int, address: int, size: int, swizzle: int) -> np.ndarray:
    # a row takes all of the span of the swizzle, even if it is shorter: seen on an H200
    begins = address + np.arange(rows) * max(row, swizzle)
    starts = swizzled((begins[:, None] + np.arange(0, row, size)).ravel(), swizzle)
    starts.flags.writeable = False
    return starts


def tensor_pieces(view: TensorMapView, at: Sequence[int], *, elements: bool = False) -> Pieces:
    """The pieces of the box that begins at these coordinates, innermost first, in the order of shared memory.

    Args:
        view: The map.
        at: May lie outside of the tensor, wholly or partly.
        elements: Whether each piece is one element; otherwise they are as large as possible.
    """
    size, (dim, first, side) = view.itemsize, (view.dims[0], at[0], view.box[0])
    if not elements and not any(count * size % CHUNK_BYTES for count in (dim, first, side)):
        dim, first, side = (count * size // CHUNK_BYTES for count in (dim, first, side))
        size = CHUNK_BYTES
    rank = len(view.box)
    dims, begin, box = (dim, *view.dims[1:]), (first, *at[1:]), (side, *view.box[1:])
    starts: np.ndarray = np.zeros((1,) * rank, np.int64)
    inside: np.ndarray = np.ones((1,) * rank, bool)
    for axis, stride in enumerate((size, *view.strides)):
        shape = [1] * rank
        shape[rank - 1 - axis] = -1
        index = np.arange(begin[axis], begin[axis] + box[axis]).reshape(shape)
        starts = starts + index * stride
        inside = inside & (index >= 0) & (index < dims[axis])
    convert = _rounded if view.rounds else None
    return Pieces(view.tensor, starts.ravel(), size, None if inside.all() else inside.ravel(), convert)


def _rounded(contents: np.ndarray) -> np.ndarray:
    """Elements of tfloat32 rounded, as bytes; all NaN become one, as an H200 has it."""
    elements = round_tf32(np.ascontiguousarray(contents).view(np.float32))
    return np.where(np.isnan(elements), _NAN, elements).view(np.uint8)


def pixel_pieces(view: TensorMapView, at: Sequence[int], offsets: Sequence[int]) -> Pieces:
    """The pieces of the pixels that follow a base pixel, in the order of shared memory.

    Base pixels are walked along the innermost spatial dimension first, each between its corners; what is read of each
    lies `offsets` further.

    Args:
        view: A map of pixels.
        at: The first channel, the first base pixel, and the image, innermost first.
        offsets: Per spatial dimension, innermost first.
    """
    size, channels = view.itemsize, view.box[0]
    ranges = [
        range(low, dim + high, step) for dim, (low, high, step) in zip(view.dims[1:-1], view.pixels, strict=True)
    ]
    number = at[-1]
    for base, along in zip(reversed(at[1:-1]), reversed(ranges), strict=True):
        number = number * len(along) + (base - along.start) // along.step
    left: np.ndarray = number + np.arange(view.box[1])
    starts: np.ndarray = np.zeros_like(left)
    inside: np.ndarray = np.ones(left.shape, bool)
    coordinates = []
    for along, offset in zip(ranges, offsets, strict=True):
        left, nth = np.divmod(left, max(1, len(along)))
        coordinates.append(along.start + nth * along.step + offset)
    for index, dim, stride in zip((*coordinates, left), view.dims[1:], view.strides, strict=True):
        starts = starts + index * stride
        inside = inside & (index >= 0) & (index < dim)
    unit = CHUNK_BYTES if not any(count * size % CHUNK_BYTES for count in (view.dims[0], at[0], channels)) else size
    channel = at[0] * size + np.arange(0, channels * size, unit)
    begins = starts[:, None] + channel
    within = inside[:, None] & (channel >= 0) & (channel < view.dims[0] * size)
    return Pieces(view.tensor, begins.ravel(), unit, None if within.all() else within.ravel())


def map_fault(
    dims: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    swizzle: int,
    itemsize: int,
    base: int = 0,
    pixels: Sequence[tuple[int, int, int]] = (),
) -> str:
    """Why there is no such map, in a few words; empty if there is.

    Args:
        dims: Extents in elements, innermost first.
        strides: Bytes, of dimensions 1 and on.
        box: Elements per dimension.
        swizzle: In bytes.
        itemsize: Bytes of an element.
        base: The address of the tensor, as far as it is known.
        pixels: See `ir.launch.TensorMap`.
    """
    row = box[0] * itemsize if box else 0
    if pixels and (fault := _pixel_fault(dims, box, pixels)):
        return fault
    if pixels:
        box = (box[0], *[1] * (len(dims) - 1))  # of which each pixel is one
    if not 1 <= len(box) <= MAX_RANK or not len(dims) == len(box) == len(strides) + 1:
        return f"a box has 1 to {MAX_RANK} dimensions, each with an extent and all but the first with a stride"
    if swizzle not in _PERMUTED:
        return f"a swizzle spans 0, 32, 64 or 128 bytes, not {swizzle}"
    for side in box:
        if not 1 <= side <= MAX_SIDE:
            return f"a side of a box has 1 to {MAX_SIDE} elements, not {side}"
    if row % CHUNK_BYTES:
        return f"the rows of a box are multiples of {CHUNK_BYTES} bytes, not {row}"
    if swizzle and row > swizzle:
        return f"the rows of a box fit into the span of its swizzle, {swizzle} bytes, but these have {row}"
    for extent in dims:
        if not 1 <= extent <= _MAX_EXTENT:
            return f"a dimension has 1 to {_MAX_EXTENT} elements, not {extent}"
    for stride in strides:
        if stride % CHUNK_BYTES or not 0 <= stride < _MAX_STRIDE:
            return f"strides are multiples of {CHUNK_BYTES} bytes below {_MAX_STRIDE}, not {stride}"
    if base % CHUNK_BYTES:
        return f"tensors begin at multiples of {CHUNK_BYTES} bytes, not at {base}"
    return ""


def _pixel_fault(dims: Sequence[int], box: Sequence[int], pixels: Sequence[tuple[int, int, int]]) -> str:
    """Why there is no such map of pixels; empty if there may be."""
    if len(pixels) != 2 or len(dims) != IMAGE_RANK or len(box) != 2:
        return "pixels are those of images with 2 spatial dimensions, beside channels and a number"
    if not 1 <= box[1] <= MAX_PIXELS:
        return f"a box has 1 to {MAX_PIXELS} pixels, not {box[1]}"
    for dim, (low, high, step) in zip(dims[1:3], pixels, strict=True):
        if low not in CORNERS or high not in CORNERS:
            return f"corners lie {CORNERS.start} to {CORNERS.stop - 1} elements from the image's, not {low} and {high}"
        if not 1 <= step <= MAX_STEP:
            return f"base pixels are 1 to {MAX_STEP} elements apart, not {step}"
        if low >= dim + high:
            return f"no base pixel lies between {low} and {dim + high - 1}"
    return ""
