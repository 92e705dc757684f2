import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.layout.xor_swizzle import MODES, swizzled, widest_mode


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
