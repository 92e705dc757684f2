"""Arrays of packed sub-byte elements: 4-bit integers and floats, two per byte.

Packed arrays are unpacked to one element per byte for kernels, and packed again afterwards. Invariant: element 2 * i of
a row is in the low half of byte i.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilelang.dtypes import SCALARS, DType
from tilelang.records import record
from tilelang.runtime.arrays import ArrayView, allocate, allocate_on_device, dense_strides

_STORAGE = ("uint8", "int8")  # dtypes of arrays that hold bytes
_TORCH_PAIRS = "float4_e2m1fn_x2"  # torch's dtype of two such floats in a byte


@record
class Packed:
    """A packed array, and its unpacked elements.

    Attributes:
        elements: One in a byte, in the low bits.
        bytes: The array that was passed; a torch tensor on a device, or a NumPy array of its memory.
        unpacked: Of the same kind, on the memory of `elements`.
        bits: Of an element.
    """

    elements: ArrayView
    bytes: Any
    unpacked: Any
    bits: int


def packed_storage(dtype: DType, view: ArrayView) -> bool:
    """Whether an array holds several elements of a dtype in each byte."""
    if dtype.bits >= 8 or 8 % dtype.bits or dtype.lanes > 1 or not view.shape:
        return False
    return view.dtype is not None and str(view.dtype) in _STORAGE or view.dtype_text == f"torch.{_TORCH_PAIRS}"


def logical(dtype: DType, view: ArrayView) -> ArrayView:
    """The array with extents and strides in elements: the last extent, and all strides but the last, are scaled."""
    count = 8 // dtype.bits
    shape = (*view.shape[:-1], view.shape[-1] * count)
    strides = None
    if view.strides is not None:
        last = view.strides[-1] if view.shape[-1] > 1 else 1  # a single byte still holds neighbors
        strides = (*(stride * count for stride in view.strides[:-1]), last)
    return dataclasses.replace(view, dtype=dtype, shape=shape, strides=strides)


def unpack(dtype: DType, view: ArrayView) -> Packed | None:
    """The unpacked elements of an array; None if its layout is not supported."""
    seen = logical(dtype, view)
    if 0 in seen.shape:  # whose strides say nothing
        seen = dataclasses.replace(seen, strides=dense_strides(seen.shape))
    if seen.strides is None or seen.shape[-1] > 1 and seen.strides[-1] != 1 or min(seen.strides) < 0:
        return None
    strides = _normalized_strides(seen.shape, seen.strides)
    source: Any
    unpacked: Any
    if view.device == "cpu":
        source = dataclasses.replace(view, dtype=SCALARS["uint8"], writable=True).as_numpy()
        memory = np.zeros(_span(seen.shape, strides), np.uint8)
        unpacked = np.lib.stride_tricks.as_strided(memory, seen.shape, strides)
        elements = dataclasses.replace(seen, strides=strides, pointer=memory.ctypes.data, owner=memory, aligned=True)
    elif view.framework == "torch":
        torch = sys.modules["torch"]
        source = view.owner.view(torch.uint8)  # type: ignore[attr-defined]
        unpacked = torch.empty_strided(seen.shape, strides, dtype=torch.uint8, device=source.device)
        elements = dataclasses.replace(seen, strides=strides, pointer=unpacked.data_ptr(), owner=unpacked, aligned=True)
    else:
        return None
    mask = (1 << dtype.bits) - 1
    for part in range(8 // dtype.bits):
        unpacked[..., part :: 8 // dtype.bits] = (source >> (part * dtype.bits)) & mask
    return Packed(elements, source, unpacked, dtype.bits)


def repack(packed: Packed) -> None:
    """Packs the elements into the bytes again; on a device, on the current stream after the launch."""
    count, source = 8 // packed.bits, packed.unpacked
    whole = source[..., 0::count]
    for part in range(1, count):
        whole = whole | (source[..., part::count] << (part * packed.bits))
    packed.bytes[...] = whole


def allocate_packed(like: object, shape: tuple[int, ...], dtype: DType, device: int | None) -> Any:
    """An uninitialized packed array; None if a row is not a whole number of bytes.

    It has torch's dtype of packed pairs if there is one, else bytes.
    """
    count = 8 // dtype.bits
    if not shape or shape[-1] % count:
        return None
    torch, storage = sys.modules.get("torch"), SCALARS["int8" if str(dtype) == "int4" else "uint8"]
    shape = (*shape[:-1], shape[-1] // count)
    array = allocate(like, shape, storage) if device is None else allocate_on_device(like, shape, storage, device)
    pairs = getattr(torch, _TORCH_PAIRS, None) if str(dtype) == "float4_e2m1fn" else None
    if pairs is not None and torch is not None and isinstance(array, torch.Tensor):
        return array.view(pairs)
    return array


def _normalized_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides, with arbitrary ones for dimensions of extent 1."""
    return tuple(stride if extent > 1 else 1 for extent, stride in zip(shape, strides, strict=True))


def _span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one."""
    if math.prod(shape) == 0:
        return 0
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
