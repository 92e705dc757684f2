"""Dense copies of arrays whose elements do not lie in row-major order, in their framework and on their device."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilelang.runtime.arrays import borrow, is_torch_tensor


def dense(value: Any) -> Any:
    """A dense copy of an array; the array itself if it is dense, or if its framework is not known to copy arrays."""
    view = borrow(value)
    if view is None or view.is_dense:
        return value
    if is_torch_tensor(value):
        return value.contiguous()
    if view.device == "cpu" and view.dtype is not None and view.strides is not None:
        return np.ascontiguousarray(view.as_numpy())
    cupy = sys.modules.get("cupy")
    return cupy.ascontiguousarray(value) if cupy is not None and isinstance(value, cupy.ndarray) else value


def write_back(copy: Any, array: Any) -> None:
    """Copies what was written to a dense copy into the array that it was made of."""
    if is_torch_tensor(array):
        array.copy_(copy)
    elif view := borrow(array) if isinstance(copy, np.ndarray) else None:
        view.as_numpy()[...] = copy
    else:
        array[...] = copy
