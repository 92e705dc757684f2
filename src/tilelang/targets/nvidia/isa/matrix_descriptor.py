"""Matrix descriptors of wgmma: the 64 bits that address an operand in shared memory.

Gives `encode`, and `Operand`, which computes the addresses that an instruction reads. Invariant: they are computed as
the hardware does, by addition and then an XOR of address bits, independently of the compiler's layout of the tile.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "Matrix Descriptor Format", "Strides"; the order of
chunks was measured on an H200 for both majors of every swizzle.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import SimulationError
from tilelang.records import record

CHUNK = 16
"""Bytes that stay together; addresses and distances count them."""
STEP_BYTES = 32
"""K of every instruction, in bytes of elements of an operand. Source: PTX ISA, "wgmma.mma_async", "Matrix Shape"."""
SWIZZLE_CODES = {0: 0, 128: 1, 64: 2, 32: 3}
"""The code of a swizzle, by the bytes of its span."""
_SWIZZLES = {code: swizzle for swizzle, code in SWIZZLE_CODES.items()}
_CORE_ROWS = 8  # rows of a core matrix, or elements along K with M or N contiguous
_FIELD = (1 << 14) - 1
_BASE_OFFSET = 7 << 49


def encode(address: int, leading: int, stride: int, swizzle: int) -> int:
    """The descriptor of a matrix.

    Args:
        address: Of its first element, in bytes.
        leading: The leading dimension byte offset.
        stride: The stride dimension byte offset.
        swizzle: The bytes within which the swizzle permutes chunks: 128, 64, 32, or 0.
    """
    fields = (address >> 4 & _FIELD, leading >> 4 & _FIELD, stride >> 4 & _FIELD)
    return fields[0] | fields[1] << 16 | fields[2] << 32 | SWIZZLE_CODES[swizzle] << 62


@record
class Operand:
    """An operand in shared memory, as one instruction reads it.

    Attributes:
        rows: Its extent along M or N.
        dtype: Of its elements.
        transposed: Whether neighbors in memory are neighbors along M or N, not along K.
    """

    rows: int
    dtype: DType
    transposed: bool

    @property
    def depth(self) -> int:
        """Its extent along K."""
        return STEP_BYTES * 8 // self.dtype.bits

    def chunks(self, descriptor: int) -> np.ndarray:
        """The address of every chunk of 16 bytes that is read.

        Shapes: (rows, 2) with K contiguous; otherwise (depth, rows / 8), as only elements of 2 bytes lie so.

        Raises:
            SimulationError: The descriptor has bits that mean nothing we know of.
        """
        if descriptor & _BASE_OFFSET:
            raise SimulationError(
                f"wgmma: the descriptor {descriptor:#x} has a base offset, with which no tile lies right"
            )
        return _chunks(self.rows, self.depth, self.transposed, descriptor)

    def of_rows(self, chunks: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """The chunks of the first rows, and the others; `rows` is a multiple of those that lie within one chunk."""
        part = rows * self.dtype.storage_bytes // CHUNK if self.transposed else rows
        return (chunks[:, :part], chunks[:, part:]) if self.transposed else (chunks[:part], chunks[part:])

    def matrix(self, chunks: np.ndarray) -> np.ndarray:
        """The operand from the contents of its chunks. Shapes: (..., 16), uint8 -> (rows, depth)."""
        lines = np.ascontiguousarray(chunks).reshape(len(chunks), -1).view(self.dtype.numpy)
        return lines.T if self.transposed else lines

    def defined(self, chunks: np.ndarray) -> np.ndarray:
        """Which elements are defined, from which bytes are. Shapes: (..., 16), bool -> (rows, depth)."""
        size = self.dtype.numpy.itemsize
        lines = chunks.reshape(len(chunks), -1, size).all(axis=-1)
        return np.asarray(lines.T if self.transposed else lines)


@lru_cache(maxsize=256)
def _chunks(rows: int, depth: int, transposed: bool, descriptor: int) -> np.ndarray:
    start = (descriptor & _FIELD) << 4
    leading, stride = (descriptor >> 16 & _FIELD) << 4, (descriptor >> 32 & _FIELD) << 4
    swizzle = _SWIZZLES[descriptor >> 62]
    address = start + _offsets(rows, depth, transposed, leading, stride, swizzle)
    chunks: np.ndarray = address ^ (address >> 7 & max(1, swizzle // CHUNK) - 1) << 4
    chunks.flags.writeable = False
    return chunks


def _offsets(rows: int, depth: int, transposed: bool, leading: int, stride: int, swizzle: int) -> np.ndarray:
    """The offset of each chunk from the start, before the swizzle."""
    line = swizzle or CHUNK  # bytes from one row, or step of k, to the next
    if not transposed:
        row, chunk = np.arange(rows)[:, None], np.arange(STEP_BYTES // CHUNK)
        return row % _CORE_ROWS * line + row // _CORE_ROWS * stride + chunk * (CHUNK if swizzle else leading)
    k, chunk = np.arange(depth)[:, None], np.arange(rows * 2 // CHUNK)
    if swizzle:
        per = swizzle // CHUNK
        return chunk % per * CHUNK + chunk // per * leading + k % _CORE_ROWS * line + k // _CORE_ROWS * stride
    return chunk * stride + k % _CORE_ROWS * line + k // _CORE_ROWS * leading  # the two offsets change roles
