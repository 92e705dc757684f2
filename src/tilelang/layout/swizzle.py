"""Swizzled layouts: chunks of 16 bytes of a row change places, so that a column of chunks touches all banks.

Takes buffers (anything with `shape` and `dtype`), gives `Layout`s that keep the row and permute within it. Invariant:
each is a bijection of the buffer's coordinates.

Source: CUDA C++ Programming Guide, "Tensor Memory Access, swizzle modes": shared memory has 32 banks of 4 bytes; the
128-, 64- and 32-byte modes XOR the index of a 16-byte chunk with bits of the index of its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.errors import ProgramError
from tilelang.layout.layout import Coordinate, Layout, static_shape

_CHUNK_BITS = 128
_BANKS_BYTES = 128  # all banks side by side
MODES = (128, 64, 32)
"""Bytes of a row within which each mode permutes, widest first."""


def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> Layout:
    """The layout without bank conflicts that suits a shared buffer: the widest mode that its rows allow.

    Rows of a multiple of 128 bytes use the 128-byte mode, then 64, then 32; other rows stay as they are. `k_major` and
    `allow_pad` are taken for the sake of existing programs: the modes suit both orders, and nothing is padded.

    Shapes: (..., rows, columns) -> (..., row, permuted column).

    Example:
        `T.annotate_layout({A_s: T.make_swizzled_layout(A_s)})`
    """
    del k_major, allow_pad
    shape, bits = _shape_and_bits(buffer, "make_swizzled_layout")
    mode = widest_mode(shape[-1] * bits)
    return swizzled(shape, bits, mode) if mode else Layout(shape, lambda *coordinates: coordinates)


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
    return _mode_of(buffer, 128)


def make_half_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 64-byte mode.

    Raises:
        ProgramError: The rows are no multiple of 64 bytes.
    """
    return _mode_of(buffer, 64)


def make_quarter_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 32-byte mode.

    Raises:
        ProgramError: The rows are no multiple of 32 bytes.
    """
    return _mode_of(buffer, 32)


def widest_mode(row_bits: int) -> int:
    """Bytes of the widest mode for rows of so many bits; 0 if none divides them."""
    return next((mode for mode in MODES if row_bits and row_bits % (8 * mode) == 0), 0)


def swizzled(shape: Sequence[int], element_bits: int, mode_bytes: int, rows: int | None = None) -> Layout:
    """The layout of a mode on rows of a multiple of `mode_bytes`.

    Args:
        shape: Of the tile.
        element_bits: Of an element.
        mode_bytes: The part of a row within which chunks change places.
        rows: How many successive rows are permuted alike; as many as fill all banks side by side, unless told. More of
            them suit accesses that step over rows.

    Shapes: (..., rows, columns) -> (..., row, permuted column).
    """
    chunk = _CHUNK_BITS // element_bits  # elements per chunk
    chunks = mode_bytes // 16
    alike = rows or _BANKS_BYTES // mode_bytes

    def place(*coordinates: Coordinate) -> tuple[Coordinate, ...]:
        *leading, row, column = coordinates
        key = (row // alike) % chunks
        index = column // chunk
        return (*leading, row, (index ^ key) * chunk + column % chunk)  # key < chunks: XOR moves within the mode

    return Layout(shape, place)


def _shape_and_bits(buffer: Any, what: str) -> tuple[tuple[int, ...], int]:
    """The extents of a buffer and the bits of an element, or of a vector of them."""
    shape = static_shape(buffer, what)
    if len(shape) < 2:
        raise ProgramError(f"{what}: needs a buffer of two or more dimensions, given {len(shape)}")
    if not hasattr(buffer, "dtype"):
        raise ProgramError(f"{what}: needs a buffer, got {buffer!r:.40}")
    bits: int = 8 * buffer.dtype.storage_bytes  # elements narrower than a byte take one each
    if bits > _CHUNK_BITS:
        raise ProgramError(f"{what}: elements of {buffer.dtype!s} are wider than a chunk of 16 bytes")
    return shape, bits


def _mode_of(buffer: Any, mode_bytes: int) -> Layout:
    what = "swizzled layout"
    shape, bits = _shape_and_bits(buffer, what)
    if not shape[-1] or shape[-1] * bits % (8 * mode_bytes):
        raise ProgramError(
            f"{what}: rows of {shape[-1] * bits / 8:g} bytes are no multiple of {mode_bytes}",
            hint="write T.make_swizzled_layout",
        )
    return swizzled(shape, bits, mode_bytes)
