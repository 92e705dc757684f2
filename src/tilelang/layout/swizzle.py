"""Swizzled layouts: chunks of 16 bytes of a row change places, so that a column of chunks touches all banks.

Takes buffers (anything with `shape` and `dtype`), gives `Layout`s that keep the row and permute within it. Invariant:
each is a bijection of the buffer's coordinates.

Source: CUDA C++ Programming Guide, "Tensor Memory Access, swizzle modes": shared memory has 32 banks of 4 bytes; the
128-, 64- and 32-byte modes XOR the index of a 16-byte chunk with bits of the index of its row.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import ProgramError
from tilelang.layout.layout import Coordinate, Layout, static_shape

_CHUNK_BITS = 128
_BANKS_BYTES = 128  # all banks side by side


def make_swizzled_layout(buffer: Any) -> Layout:
    """The layout without bank conflicts that suits a shared buffer: the widest mode that its rows allow.

    Rows of a multiple of 128 bytes use the 128-byte mode, then 64, then 32; other rows stay as they are.

    Shapes: (..., rows, columns) -> (..., row, permuted column).

    Example:
        `T.annotate_layout({A_s: T.make_swizzled_layout(A_s)})`
    """
    row_bytes = _row_bytes(buffer, "make_swizzled_layout")
    for mode_bytes in (128, 64, 32):
        if row_bytes % mode_bytes == 0 and row_bytes:
            return _swizzled(buffer, mode_bytes)
    shape = static_shape(buffer, "make_swizzled_layout")
    return Layout(shape, lambda *coordinates: coordinates)


def make_mma_swizzle_layout(buffer: Any, is_smooth: bool = False) -> Layout:
    """The layout for operands of matrix instructions: `make_swizzled_layout`, or row-major if `is_smooth`."""
    if is_smooth:
        shape = static_shape(buffer, "make_mma_swizzle_layout")
        return Layout(shape, lambda *coordinates: coordinates)
    return make_swizzled_layout(buffer)


def make_full_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 128-byte mode.

    Raises:
        ProgramError: The rows are no multiple of 128 bytes.
    """
    return _swizzled(buffer, 128)


def make_half_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 64-byte mode.

    Raises:
        ProgramError: The rows are no multiple of 64 bytes.
    """
    return _swizzled(buffer, 64)


def make_quarter_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 32-byte mode.

    Raises:
        ProgramError: The rows are no multiple of 32 bytes.
    """
    return _swizzled(buffer, 32)


def _row_bytes(buffer: Any, what: str) -> int:
    shape = static_shape(buffer, what)
    if len(shape) < 2:
        raise ProgramError(f"{what}: needs a buffer of two or more dimensions, given {len(shape)}")
    if not hasattr(buffer, "dtype"):
        raise ProgramError(f"{what}: needs a buffer, got {buffer!r:.40}")
    bits: int = shape[-1] * buffer.dtype.bits * buffer.dtype.lanes
    return bits // 8 if bits % 8 == 0 else 1


def _swizzled(buffer: Any, mode_bytes: int) -> Layout:
    what = "swizzled layout"
    row_bytes = _row_bytes(buffer, what)
    if row_bytes % mode_bytes:
        raise ProgramError(
            f"{what}: rows of {row_bytes} bytes are no multiple of {mode_bytes}", hint="write T.make_swizzled_layout"
        )
    chunk = _CHUNK_BITS // (buffer.dtype.bits * buffer.dtype.lanes)  # elements per chunk
    chunks = mode_bytes // 16
    rows_per_bank_line = _BANKS_BYTES // mode_bytes
    if chunk == 0:
        raise ProgramError(f"{what}: elements of {buffer.dtype!s} are wider than a chunk of 16 bytes")

    def place(*coordinates: Coordinate) -> tuple[Coordinate, ...]:
        *leading, row, column = coordinates
        key = (row // rows_per_bank_line) % chunks
        index = column // chunk
        return (*leading, row, (index ^ key) * chunk + column % chunk)  # key < chunks: XOR moves within the mode

    return Layout(static_shape(buffer, what), place)
