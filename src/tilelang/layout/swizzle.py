"""Bank-conflict-free layouts that users request by name, in all spellings of published programs.

Takes buffers (anything with `shape` and `dtype`), gives `Layout`s. Invariant: the copy engine and the matrix
instructions of every GPU support the results, if the shape of the tile permits it.
"""

from __future__ import annotations

from typing import Any

from tilelang.api import public
from tilelang.errors import ProgramError
from tilelang.layout.boxes import CHUNK_BYTES, boxed, fits
from tilelang.layout.layout import Layout, static_shape
from tilelang.layout.xor_swizzle import MODES, swizzled, widest_mode


@public
def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> Layout:
    """The layout without bank conflicts that suits a shared buffer: the widest mode that its rows allow.

    Rows of a multiple of 128 bytes use the 128-byte mode, then 64, then 32; other rows stay as they are. Rows longer
    than the mode are cut into boxes that lie one after another, as the copy engine and matrix units want them.
    `k_major` and `allow_pad` are taken for the sake of existing programs: the modes suit both orders, and nothing is
    padded.

    Shapes: (..., rows, columns) -> (..., row, permuted column), or (..., box, row, permuted column).

    Example:
        `T.annotate_layout({A_s: T.make_swizzled_layout(A_s)})`
    """
    del k_major, allow_pad
    shape, bits = _shape_and_bits(buffer, "make_swizzled_layout")
    mode = widest_mode(shape[-1] * bits)
    return _of_mode(shape, bits, mode) if mode else Layout(shape, lambda *coordinates: coordinates)


@public
def make_mma_swizzle_layout(buffer: Any, is_smooth: bool = False) -> Layout:
    """The layout for operands of matrix instructions: `make_swizzled_layout`, or row-major if `is_smooth`."""
    if is_smooth:
        shape = static_shape(buffer, "make_mma_swizzle_layout")
        return Layout(shape, lambda *coordinates: coordinates)
    return make_swizzled_layout(buffer)


@public
def make_full_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 128-byte mode.

    Raises:
        ProgramError: The rows are no multiple of 128 bytes.
    """
    return _mode_of(buffer, 128)


@public
def make_half_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 64-byte mode.

    Raises:
        ProgramError: The rows are no multiple of 64 bytes.
    """
    return _mode_of(buffer, 64)


@public
def make_quarter_bank_swizzled_layout(buffer: Any) -> Layout:
    """The 32-byte mode.

    Raises:
        ProgramError: The rows are no multiple of 32 bytes.
    """
    return _mode_of(buffer, 32)


def _shape_and_bits(buffer: Any, what: str) -> tuple[tuple[int, ...], int]:
    """The extents of a buffer and the bits of an element, or of a vector of them."""
    shape = static_shape(buffer, what)
    if len(shape) < 2:
        raise ProgramError(f"{what}: needs a buffer of two or more dimensions, given {len(shape)}")
    if not hasattr(buffer, "dtype"):
        raise ProgramError(f"{what}: needs a buffer, got {buffer!r:.40}")
    bits: int = 8 * buffer.dtype.storage_bytes  # elements narrower than a byte take one each
    if bits > 8 * CHUNK_BYTES:
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
    return _of_mode(shape, bits, mode_bytes)


def _of_mode(shape: tuple[int, ...], bits: int, mode_bytes: int) -> Layout:
    """A mode in boxes, or within whole rows where there are too few of them for a box."""
    make = boxed if fits(shape, bits, mode_bytes) else swizzled
    return make(shape, bits, mode_bytes)


@public
def make_wgmma_swizzled_layout(buffer: Any, continuity: int | None = None, k_major: bool = True) -> Layout:
    """The layout that `wgmma` reads a shared operand in: the widest mode that the rows allow, or boxes of one chunk.

    Args:
        buffer: The tile.
        continuity: Elements that one row of boxes may hold at most; all of a row without it.
        k_major: Whether rows run along the dimension that is summed over; the modes are the same for both.

    Raises:
        ProgramError: The tile has no two dimensions, or `continuity` is no divisor of its rows.
    """
    del k_major
    what = "make_wgmma_swizzled_layout"
    shape, bits = _shape_and_bits(buffer, what)
    run = shape[-1] if continuity is None else continuity
    if isinstance(run, bool) or not isinstance(run, int) or run < 1 or shape[-1] % run:
        raise ProgramError(f"{what}: continuity {continuity!r:.40} does not divide rows of {shape[-1]}")
    mode = next((m for m in MODES if run * bits % (8 * m) == 0 and fits(shape, bits, m)), 0)
    return boxed(shape, bits, mode) if mode else Layout(shape, lambda *coordinates: coordinates)


@public
def make_tcgen05mma_swizzled_layout(buffer: Any, continuity: int | None = None, k_major: bool = True) -> Layout:
    """The layout that `tcgen05.mma` reads a shared operand in: that of `make_wgmma_swizzled_layout`."""
    return make_wgmma_swizzled_layout(buffer, continuity, k_major)


@public
def make_volta_swizzled_layout(buffer: Any, is_a: bool = True, k_inner: bool = True) -> Layout:
    """The layout without bank conflicts for a shared operand on Volta: that of `make_swizzled_layout`.

    `is_a` and `k_inner` say which operand it is. They change nothing here: products of sm_70 run on ordinary
    arithmetic, whose reads of either operand the modes suit.
    """
    del is_a, k_inner
    return make_swizzled_layout(buffer)
