"""Global memory as the simulator sees it: an argument or workspace as a row of bytes.

Takes arrays of the host, gives their bytes as storage that windows name. Invariant: nothing is copied.
"""

from __future__ import annotations

import numpy as np

from tilelang.errors import ArgumentError
from tilelang.ir.buffer import Buffer
from tilelang.sim.storage import Storage

_POINTER_ALIGNMENT = 256  # bytes; what memory that a framework allocates is aligned to at least


class DeviceArray:
    """An argument or workspace as a row of bytes.

    Attributes:
        storage: The bytes from the first to the last element, whatever lies between.
        begin: Where index 0 of every dimension lies, in bytes.
        strides: In elements, per dimension.
        writable: Whether the kernel may write it.
    """

    def __init__(self, buffer: Buffer, array: np.ndarray, defined: bool) -> None:
        lanes, itemsize = buffer.dtype.lanes, array.itemsize
        name = f"argument '{buffer.name}'"
        moves = [s if extent > 1 else 0 for s, extent in zip(array.strides, array.shape, strict=True)]
        if any(move % itemsize for move in moves):
            raise ArgumentError(f"{name}: expected strides of whole elements, got {array.strides} bytes")
        steps = [move // itemsize for move in moves]
        ends = [(extent - 1) * step for extent, step in zip(array.shape, steps, strict=True)]
        low, high = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)
        self.writable = array.flags.writeable
        if array.size == 0:
            flat = np.zeros(0, np.uint8)
        else:
            # the ellipsis keeps an array of rank 0 one
            first = (..., *(slice(-1, None) if step < 0 else slice(0, 1) for step in steps))
            corner = array[first].reshape(-1)[:1]
            bits = corner.view(f"u{itemsize}")  # as_strided does not know all dtypes of ml_dtypes
            row = np.lib.stride_tricks.as_strided(bits, (high - low + 1,), (itemsize,), writeable=self.writable)
            flat = row.view(np.uint8)
        self.storage = Storage(flat, base=_alignment(array) + low * itemsize)
        if not defined:
            self.storage.undefine()
        self.begin = -low * itemsize
        steps = steps[: buffer.rank]
        if any(step % lanes for step in steps):
            raise ArgumentError(f"{name}: expected strides of whole vectors of {lanes}")
        self.strides = tuple(step // lanes for step in steps)


def _alignment(array: np.ndarray) -> int:
    """Where index 0 lies modulo the alignment of a pointer, as if the memory that it is a part of were aligned."""
    address = int(array.__array_interface__["data"][0])
    owner: object = array
    while isinstance(owner, np.ndarray) and isinstance(owner.base, np.ndarray):
        owner = owner.base
    if isinstance(owner, np.ndarray) and owner.flags.owndata:
        return (address - int(owner.__array_interface__["data"][0])) % _POINTER_ALIGNMENT
    return address % _POINTER_ALIGNMENT
