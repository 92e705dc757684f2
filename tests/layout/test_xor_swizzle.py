import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import contiguous_elements
from tilelang.layout.xor_swizzle import MODES, swizzled, swizzled_lines, widest_mode


@given(st.integers(1, 20), st.integers(1, 4), st.sampled_from([4, 8, 16, 32, 64]), st.sampled_from(MODES))
def test_modes_permute_within_rows(rows: int, parts: int, bits: int, mode: int) -> None:
    columns = parts * mode * 8 // bits
    table = swizzled((rows, columns), bits, mode).table
    assert np.array_equal(np.arange(rows)[:, None].repeat(columns, 1), table[..., 0])
    assert np.array_equal(np.arange(columns)[None].repeat(rows, 0), np.sort(table[..., 1], axis=1))


def test_rows_can_be_permuted_alike() -> None:
    table = swizzled((64, 64), 16, 128, rows=4).table[..., 1]
    assert np.array_equal(table[0], table[3]) and not np.array_equal(table[3], table[4])


@pytest.mark.parametrize(("row_bytes", "mode"), [(256, 128), (128, 128), (192, 64), (96, 32), (48, 0), (0, 0)])
def test_the_widest_mode_divides_the_row(row_bytes: int, mode: int) -> None:
    assert mode == widest_mode(8 * row_bytes)


@pytest.mark.parametrize("columns", [32, 64, 128, 256])
@pytest.mark.parametrize("lines", [1, 4])
@pytest.mark.parametrize("step", [1, 2, 8])
def test_lines_permute_within_256_bytes_and_are_their_own_inverse(columns: int, lines: int, step: int) -> None:
    layout = swizzled_lines((64, columns), 16, 256, lines, step)
    assert isinstance(layout, Layout)
    table = layout.table
    assert np.array_equal(table[tuple(np.moveaxis(table, -1, 0))], np.moveaxis(np.indices((64, columns)), 0, -1))
    flat = (table[..., 0] * columns + table[..., 1]).reshape(-1, 128)
    assert np.array_equal(np.sort(flat, axis=1), np.arange(64 * columns).reshape(-1, 128))
    assert contiguous_elements(layout) >= 8


def test_rows_that_lines_do_not_divide_have_no_such_layout() -> None:
    assert swizzled_lines((64, 96), 16, 256) is None
    assert swizzled_lines((63, 64), 16, 256) is None
    assert swizzled_lines((64, 4), 16, 256) is None
