import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.errors import CompilerBug
from tilelang.layout.boxes import Boxes, boxed, find_boxes, fits
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import offsets, padded, row_major
from tilelang.layout.xor_swizzle import swizzled

ROWS = st.integers(1, 12).map(lambda n: 8 * n)
BITS = st.sampled_from([8, 16, 32])
ROW_BYTES = st.sampled_from([128, 64, 32, 16])
COUNT = st.integers(1, 4)


def written_by_hardware(rows: int, columns: int, bits: int, row_bytes: int) -> np.ndarray:
    """Byte address of every element: boxes of rows in a row, then bits 4.. XORed with bits 7.. as wide as the mode."""
    at = np.arange(columns) * bits // 8
    linear = at // row_bytes * rows * row_bytes + np.arange(rows)[:, None] * row_bytes + at % row_bytes
    return linear ^ (linear >> 7 & row_bytes // 16 - 1) << 4


@given(ROWS, COUNT, BITS, ROW_BYTES)
def test_a_boxed_tile_lies_as_the_hardware_writes_it(rows: int, count: int, bits: int, row_bytes: int) -> None:
    columns = count * row_bytes * 8 // bits
    layout = boxed((rows, columns), bits, row_bytes)
    assert np.array_equal(offsets(layout) * bits // 8, written_by_hardware(rows, columns, bits, row_bytes))


@given(ROWS, COUNT, BITS, ROW_BYTES, st.sampled_from([(), (3,)]))
def test_boxes_are_found_again(rows: int, count: int, bits: int, row_bytes: int, leading: tuple[int, ...]) -> None:
    wide = row_bytes * 8 // bits
    shape = (*leading, rows, count * wide)
    expected = Boxes(row_bytes if row_bytes > 16 else 0, wide)
    assert find_boxes(boxed(shape, bits, row_bytes), shape, bits) == expected
    assert find_boxes(boxed(shape[-2:], bits, row_bytes), (5, *shape), bits) == expected


@given(ROWS, BITS, st.sampled_from([128, 64, 32]))
def test_one_box_is_the_swizzled_layout(rows: int, bits: int, mode: int) -> None:
    shape = (rows, mode * 8 // bits)
    assert boxed(shape, bits, mode) == swizzled(shape, bits, mode)
    assert find_boxes(swizzled(shape, bits, mode), shape, bits) == Boxes(mode, shape[1])


@given(ROWS, COUNT, BITS, ROW_BYTES)
def test_versions_of_a_tile_are_permuted_alike(rows: int, count: int, bits: int, row_bytes: int) -> None:
    tile = (rows, count * row_bytes * 8 // bits)
    one, versions = offsets(boxed(tile, bits, row_bytes)), offsets(boxed((3, *tile), bits, row_bytes))
    assert np.array_equal(versions, one + one.size * np.arange(3)[:, None, None])


def test_row_major_tiles_are_one_box_that_is_not_permuted() -> None:
    assert find_boxes(None, (64, 48), 16) == Boxes(0, 48)
    assert find_boxes(None, (2, 64, 48), 16) == Boxes(0, 48)
    assert find_boxes(row_major((64, 48)), (64, 48), 16) == Boxes(0, 48)
    assert find_boxes(row_major((64, 8)), (64, 8), 16) == Boxes(0, 8)
    assert find_boxes(None, (64,), 16) is None


def test_other_layouts_are_no_boxes() -> None:
    assert find_boxes(padded((64, 64), 8), (64, 64), 16) is None
    assert find_boxes(swizzled((64, 128), 16, 128), (64, 128), 16) is None  # permutes within rows of two boxes
    assert find_boxes(swizzled((64, 64), 16, 128, 2), (64, 64), 16) is None
    assert find_boxes(Layout((64, 64), lambda i, j: (j, i)), (64, 64), 16) is None
    assert find_boxes(boxed((64, 64), 16, 128), (128, 64), 16) is None


def test_boxes_that_do_not_fit_are_refused() -> None:
    assert not fits((12, 64), 16, 128)
    with pytest.raises(CompilerBug, match="boxes of 128 bytes do not fit"):
        boxed((64, 40), 16, 128)
