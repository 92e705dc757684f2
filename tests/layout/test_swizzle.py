from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang import layout as layouts
from tilelang.dtypes import DType
from tilelang.errors import ProgramError
from tilelang.layout.boxes import Boxes, find_boxes
from tilelang.layout.shared_memory import offsets
from tilelang.layout.swizzle import make_mma_swizzle_layout, make_swizzled_layout


def buffer(shape: tuple[int, ...], dtype: str = "float16") -> SimpleNamespace:
    return SimpleNamespace(shape=shape, dtype=DType(dtype))


@given(st.integers(1, 20), st.integers(1, 80), st.sampled_from(["int8", "float16", "float32", "float64", "int4"]))
def test_every_element_has_a_place_of_its_own(rows: int, columns: int, dtype: str) -> None:
    layout = make_swizzled_layout(buffer((rows, columns), dtype))
    assert np.array_equal(np.arange(rows * columns), np.sort(offsets(layout), axis=None))


@pytest.mark.parametrize("rows", [8, 12, 64])
@pytest.mark.parametrize(
    ("columns", "dtype", "bits"),
    [
        (64, "float16", 16),
        (32, "float16", 16),
        (16, "float16", 16),
        (32, "float32", 32),
        (128, "int8", 8),
        (256, "float16", 16),
    ],
)
def test_eight_rows_of_one_column_touch_all_banks(rows: int, columns: int, dtype: str, bits: int) -> None:
    places = offsets(make_swizzled_layout(buffer((rows, columns), dtype))) * bits // 128 % 8
    for column in range(0, columns, 128 // bits):
        assert 8 == len(set(places[:8, column]))


@pytest.mark.parametrize("columns", [16, 32, 64, 128, 256])
def test_the_copy_engine_knows_what_they_are(columns: int) -> None:
    layout = make_swizzled_layout(buffer((16, columns)))
    assert Boxes(2 * min(columns, 64), min(columns, 64)) == find_boxes(layout, (16, columns), 16)


def test_chunks_of_16_bytes_stay_together() -> None:
    table = make_swizzled_layout(buffer((8, 64))).table[..., 1].reshape(8, 8, 8)
    assert np.array_equal(table[..., :1] + np.arange(8), table)
    assert (table[..., 0] % 8 == 0).all()


def test_rows_that_no_mode_divides_stay_as_they_are() -> None:
    assert (3, 5) == make_swizzled_layout(buffer((8, 33)))(3, 5)


def test_leading_dimensions_pass_through() -> None:
    stacked = make_swizzled_layout(buffer((2, 8, 64)))
    assert (1, *make_swizzled_layout(buffer((8, 64)))(3, 5)) == stacked(1, 3, 5)


def test_modes_by_name() -> None:
    wide = buffer((16, 64))
    assert make_swizzled_layout(wide) == layouts.make_full_bank_swizzled_layout(wide)
    assert make_swizzled_layout(buffer((16, 32))) == layouts.make_half_bank_swizzled_layout(buffer((16, 32)))
    assert make_swizzled_layout(buffer((16, 16))) == layouts.make_quarter_bank_swizzled_layout(buffer((16, 16)))
    with pytest.raises(ProgramError, match="rows of 32 bytes are no multiple of 128"):
        layouts.make_full_bank_swizzled_layout(buffer((16, 16)))


def test_the_layouts_that_instructions_read() -> None:
    make = layouts.make_wgmma_swizzled_layout
    for columns, continuity, mode_bytes in [
        (64, None, 128),
        (32, None, 64),
        (16, None, 32),
        (64, 32, 64),
        (64, 16, 32),
    ]:
        layout = make(buffer((16, columns)), continuity)
        assert Boxes(mode_bytes, mode_bytes // 2) == find_boxes(layout, (16, columns), 16)
    plain = make(buffer((16, 8)))
    assert np.array_equal(np.arange(128).reshape(16, 8), offsets(plain))
    with pytest.raises(ProgramError, match="continuity 48 does not divide rows of 64"):
        make(buffer((16, 64)), 48)
    assert make(buffer((16, 64))) == layouts.make_tcgen05mma_swizzled_layout(buffer((16, 64)), k_major=False)
    assert make_swizzled_layout(buffer((16, 64))) == layouts.make_volta_swizzled_layout(buffer((16, 64)), is_a=False)


def test_the_layout_for_matrix_instructions() -> None:
    wide = buffer((16, 64))
    assert make_swizzled_layout(wide) == make_mma_swizzle_layout(wide)
    assert (3, 5) == make_mma_swizzle_layout(wide, is_smooth=True)(3, 5)


def test_what_cannot_be_swizzled() -> None:
    with pytest.raises(ProgramError, match="needs a buffer of two or more dimensions, given 1"):
        make_swizzled_layout(buffer((64,)))
    with pytest.raises(ProgramError, match="needs a buffer of constant shape"):
        make_swizzled_layout(3)
    with pytest.raises(ProgramError, match="elements of float64x4 are wider than a chunk"):
        make_swizzled_layout(buffer((8, 32), "float64x4"))
