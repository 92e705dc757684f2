"""NumPy arrays over memory of this process at a given address.

Nothing is copied; the caller ensures that the memory is valid.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np


def array_at(
    address: int, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int] | None = None, owner: object = None
) -> np.ndarray:
    """An array over the memory at an address.

    Args:
        address: In bytes.
        shape: The extents.
        dtype: The element dtype.
        strides: In elements; row-major and dense without them.
        owner: Kept alive by the array.
    """
    if 0 in shape:
        return np.empty(shape, dtype)
    if strides is None:
        strides = [int(np.prod(shape[axis + 1 :], dtype=int)) for axis in range(len(shape))]
    itemsize = dtype.itemsize
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low, high = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    memory = (ctypes.c_char * ((high - low + 1) * itemsize)).from_address(address + low * itemsize)
    memory.owner = owner  # type: ignore[attr-defined]  # the array keeps `memory`, which keeps the owner
    array: np.ndarray = np.ndarray(
        tuple(shape), dtype, memoryview(memory), -low * itemsize, tuple(stride * itemsize for stride in strides)
    )
    return array
