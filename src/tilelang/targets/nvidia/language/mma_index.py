"""The index arithmetic of `ldmatrix`, `stmatrix` and `mma`, as programs ask for it that write these by hand.

Takes indices (ints or expressions) and dtypes, gives tuples of indices. Invariant: nothing is recorded.

Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix", "Matrix Fragments for mma.m16n8k8", "... m16n8k16" and
"... m16n8k32";
CUDA C++ Programming Guide, "Tensor Memory Access, swizzle modes".
"""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import DType, as_dtype
from tilelang.errors import NoLowering, ProgramAssertionError, ProgramValueError
from tilelang.language.api import api
from tilelang.language.types import DTypeLike
from tilelang.layout.xor_swizzle import MODES

__all__ = ["get_ldmatrix_offset", "get_mma_micro_size", "get_swizzle_layout", "mma_store_index_map"]

_CHUNK_BITS = 128  # of a row of 16 bytes, which stays together
GROUP_CONFIG: dict[DType, tuple[int, int]] = {
    as_dtype(name): (1, 2) if name == "float32" else (2, 4)
    for name in ("float32", "float16", "bfloat16", "int8", "uint8", "float8_e4m3fn", "float8_e5m2")
}
"""The elements of each group that a 2:4 sparse operand keeps, and the elements of a group, by dtype."""


@api
def get_swizzle_layout(
    row_idx: Any, col_idx: Any, row_size: int, dtype: DTypeLike, swizzle_bytes: int | None = None
) -> tuple[Any, Any, Any]:
    """Where an element of a swizzled tile lies: the number of its box, the row, and the place in the row of the box.

    Args:
        row_idx: The element's row.
        col_idx: Its column.
        row_size: Elements of a row of the tile.
        dtype: Of the elements.
        swizzle_bytes: Bytes of a row of a box: 32, 64 or 128; the widest that divides the tile's rows without it.

    Raises:
        ProgramAssertionError: The rows are no multiple of 32 bytes, or there is no such mode.
    """
    bits = as_dtype(dtype).bits
    if row_size * bits % 256:
        raise ProgramAssertionError(f"get_swizzle_layout: rows of {row_size * bits / 8:g} bytes are no multiple of 32")
    mode = next(m for m in MODES if row_size * bits % (8 * m) == 0) if swizzle_bytes is None else swizzle_bytes
    if mode not in MODES:
        raise ProgramAssertionError(f"get_swizzle_layout: swizzle_bytes is {mode!r:.40}", hint="write 32, 64 or 128")
    chunk, chunks = _CHUNK_BITS // bits, mode // 16
    number = col_idx // chunk
    permuted = (number % chunks) ^ (row_idx % 8 // (8 // chunks))
    return number // chunks, row_idx, permuted * chunk + col_idx % chunk


@api
def get_mma_micro_size(dtype: DTypeLike) -> tuple[int, int, int]:
    """The extents (M, N, K) of an mma atom for operands of a dtype."""
    return (16, 16, 32) if as_dtype(dtype).bits == 8 else (16, 16, 16)


@api
def get_ldmatrix_offset(
    matrix: str, row_idx: Any, col_idx: Any, stride: Any, dtype: DTypeLike = "float16", transposed: bool = False
) -> Any:
    """Where a lane's row of 16 bytes begins for an `ldmatrix` of four matrices, as an offset in elements.

    Args:
        matrix: "A" or "B".
        row_idx: The lane.
        col_idx: The element of the row, usually 0.
        stride: Elements from one row of the tile to the next.
        dtype: Of the elements, of 16 or 8 bits.
        transposed: Whether the matrices are transposed on the way (16 bits); for 8 bits, False for A and True for B.

    Raises:
        ProgramValueError: The matrix is another one, or the instruction cannot load elements of this dtype so.
    """
    lane, element = row_idx, col_idx
    bits = as_dtype(dtype).bits
    if matrix not in ("A", "B"):
        raise ProgramValueError(f"get_ldmatrix_offset: matrix is {matrix!r:.40}", hint="write 'A' or 'B'")
    if bits == 16:
        row, column = (lane % 16, lane // 16 * 8 + element % 8)
        if transposed:
            row, column = (lane // 16 * 8 + lane % 8, lane % 16 // 8 * 8 + element % 8)
    elif bits == 8 and transposed == (matrix == "B"):
        row, column = (lane % 16, lane // 16 * 16 + element)
        if transposed:
            row, column = (lane // 16 * 8 + lane % 8, lane % 16 // 8 * 16 + element)
    else:
        raise ProgramValueError(
            f"get_ldmatrix_offset: ldmatrix loads no {matrix} of {as_dtype(dtype)!s} with transposed={transposed}",
            hint="8-bit elements of A come as they lie, and those of B transposed",
        )
    return row * stride + column


@api
def mma_store_index_map(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """The row and column in a 16 x 16 tile of C of register `local_id` of a lane: two instructions of 16 x 8."""
    row = local_id % 4 // 2 * 8 + thread_id // 4
    return row, local_id // 4 * 8 + thread_id % 4 * 2 + local_id % 2


def _lane_of(row: Any, column: Any, packed: int) -> Any:
    """The lane that holds an element of an operand whose registers have `packed` elements of a row each."""
    return row % 8 * 4 + column % (4 * packed) // packed


def _place_in_a(i: Any, j: Any, bits: int) -> tuple[Any, Any]:
    packed = 32 // bits
    return _lane_of(i, j, packed), j // (4 * packed) * 2 * packed + i // 8 * packed + j % packed


def _place_in_b(i: Any, j: Any, bits: int) -> tuple[Any, Any]:
    packed = 32 // bits
    return _lane_of(i, j, packed), i // 8 * 2 * packed + j // (4 * packed) * packed + j % packed


@api
def shared_16x8_to_mma_32x4_layout_sr_a(i: Any, j: Any) -> tuple[Any, Any]:
    """The lane and its register that hold A[i, j] of one instruction for elements of 32 bits, by rows."""
    return _place_in_a(i, j, 32)


@api
def shared_16x8_to_mma_32x4_layout_sr_b(i: Any, j: Any) -> tuple[Any, Any]:
    """The lane and its register that hold column i of B at k = j, of two instructions side by side, of 32 bits."""
    return _place_in_b(i, j, 32)


@api
def shared_16x16_to_mma_32x8_layout_sr_a(i: Any, j: Any) -> tuple[Any, Any]:
    """The lane and its element that hold A[i, j] of one instruction for elements of 16 bits, by rows."""
    return _place_in_a(i, j, 16)


@api
def shared_16x16_to_mma_32x8_layout_sr_b(i: Any, j: Any) -> tuple[Any, Any]:
    """The lane and its element that hold column i of B at k = j, of two instructions side by side, of 16 bits."""
    return _place_in_b(i, j, 16)


@api
def shared_16x32_to_mma_32x16_layout_sr_a(i: Any, j: Any) -> tuple[Any, Any]:
    """The lane and its element that hold A[i, j] of one instruction for elements of 8 bits, by rows."""
    return _place_in_a(i, j, 8)


@api
def shared_16x32_to_mma_32x16_layout_sr_b(i: Any, j: Any) -> tuple[Any, Any]:
    """The lane and its element that hold column i of B at k = j, of two instructions side by side, of 8 bits."""
    return _place_in_b(i, j, 8)


@api
def get_e_factor(a_dtype: DTypeLike, meta_dtype: DTypeLike) -> int:
    """Return how many elements of the dense operand one element of metadata describes: a group needs 4 bits.

    Raises:
        ProgramValueError: No sparse gemm has operands of this dtype.
    """
    return as_dtype(meta_dtype).bits // 4 * _group(a_dtype)[1]


@api
def get_e_replicate_factor(a_dtype: DTypeLike) -> int:
    """Return how many lanes hold the same metadata: 1 for elements of 8 bits, else 2.

    Raises:
        ProgramValueError: No sparse gemm has operands of this dtype.
    """
    _group(a_dtype)
    return 1 if as_dtype(a_dtype).bits == 8 else 2


def _group(dtype: DTypeLike) -> tuple[int, int]:
    row = as_dtype(dtype)
    if row not in GROUP_CONFIG:
        raise ProgramValueError(f"sparse gemms have no operands of {row!s}")
    return GROUP_CONFIG[row]


def compute_gmma_descriptor(*arguments: object, **keywords: object) -> Any:
    """A matrix descriptor of published TileLang; the compiler makes them here.

    Raises:
        NoLowering: Always.
    """
    raise NoLowering(
        "compute_gmma_descriptor: descriptors of shared operands are internal to published TileLang",
        hint="write T.wgmma_gemm, or T.gemm",
    )
