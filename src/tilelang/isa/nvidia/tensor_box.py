"""Which bytes a box of a tensor map names, in the tensor and in shared memory, and what a map must look like.

Takes the numbers of a map, gives `Pieces` and complaints. Invariant: the n-th piece of a box in the tensor and the n-th
in shared memory are the two ends of one movement; a box has as many bytes in shared memory however much of it lies
outside of the tensor.

Source: CUDA Driver API, "cuTensorMapEncodeTiled"; PTX ISA, "Tensors: Swizzling modes"; the permutation of chunks was
verified on an H200.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tilelang.isa.machine import Pieces, TensorMapView

CHUNK_BYTES = 16  # what a swizzle moves, and what addresses, strides and the rows of a box are multiples of
BOX_ALIGNMENT = 128  # bytes; of a box in shared memory. Source: PTX ISA, "cp.async.bulk.tensor"
MAX_RANK = 5
MAX_SIDE = 256  # elements of a box along one dimension
_MAX_EXTENT = 1 << 32
_MAX_STRIDE = 1 << 40
_PERMUTED = {0: 0, 32: 1, 64: 3, 128: 7}  # span of a swizzle: which bits of the number of a 128-byte line it mixes in
SWIZZLES = tuple(_PERMUTED)


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
    return Pieces(view.tensor, starts.ravel(), size, None if inside.all() else inside.ravel())


def map_fault(
    dims: Sequence[int], strides: Sequence[int], box: Sequence[int], swizzle: int, itemsize: int, base: int = 0
) -> str:
    """Why there is no such map, in a few words; empty if there is.

    Args:
        dims: Extents in elements, innermost first.
        strides: Bytes, of dimensions 1 and on.
        box: Elements per dimension.
        swizzle: In bytes.
        itemsize: Bytes of an element.
        base: The address of the tensor, as far as it is known.
    """
    row = box[0] * itemsize if box else 0
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
