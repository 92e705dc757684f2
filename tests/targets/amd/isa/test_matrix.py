"""The fragments of matrix instructions against closed formulas, and what the instructions compute."""

import numpy as np
import pytest

from tilelang.targets.amd.isa.matrix import Operands
from tilelang.targets.amd.isa.matrix_table import MATRIX_INSTRUCTIONS

ALL = pytest.mark.parametrize("row", MATRIX_INSTRUCTIONS, ids=lambda row: row.name)


def of_name(name):
    return next(row for row in MATRIX_INSTRUCTIONS if row.name == name)


# Block, row (or column) and k of element v of a lane; block, row and column of sum v. Source: the manuals' figures of
# register layouts, which agree with ROCm/amd_matrix_instruction_calculator
def mfma_input(row, lane, v):
    size, _, k = row.shape
    values = k * row.blocks * size // 64
    return lane // size % row.blocks, lane % size, lane // size // row.blocks * values + v


def mfma_sum(row, lane, v):
    size = row.shape[0]
    group = v // 4 * (64 // size) + lane // size  # of four rows
    return group // (size // 4), 4 * (group % (size // 4)) + v % 4, lane % size


def float64_sum(row, lane, v):
    if row.shape[0] == 4:
        return lane // 4 % 4, lane // 16, lane % 4
    return 0, 4 * v + lane // 16, lane % 16


def repeated_input(row, lane, v):
    return 0, lane % 16, v


def split_input(row, lane, v):
    if row.a_dtype.bits == 16:
        return 0, lane % 16, 8 * (v // 4) + 4 * (lane // 16) + v % 4
    return 0, lane % 16, 8 * (lane // 16) + v


FORMULAS = {
    Operands.MFMA: (mfma_input, mfma_sum),
    Operands.REPEATED: (repeated_input, lambda row, lane, v: (0, 2 * v + lane // 16, lane % 16)),
    Operands.SPLIT: (split_input, lambda row, lane, v: (0, 8 * (lane // 16) + v, lane % 16)),
}


@ALL
def test_fragments_are_those_of_the_manuals(row):
    of_input, of_sum = FORMULAS[row.operands]
    if row.c_dtype == "float64":
        of_sum = float64_sum
    for formula, layout in ((of_input, row.a), (of_input, row.b), (of_sum, row.c)):
        expected = [[formula(row, lane, v) for v in range(layout.values)] for lane in range(row.wave)]
        assert np.array_equal(expected, layout.table)


@ALL
def test_lanes_hold_each_element_once(row):
    copies = 2 if row.operands is Operands.REPEATED else 1
    for layout, times in ((row.a, copies), (row.b, copies), (row.c, 1)):
        found, counts = np.unique(layout.table.reshape(-1, 3), axis=0, return_counts=True)
        assert len(found) == np.prod(layout.shape)
        assert (counts == times).all()


def operands(row, rng):
    """A, B and C as arrays of blocks."""
    return [
        rng.integers(0 if str(dtype).startswith("uint") else -4, 5, layout.shape).astype(dtype.numpy)
        for dtype, layout in ((row.a_dtype, row.a), (row.b_dtype, row.b), (row.c_dtype, row.c))
    ]


@ALL
def test_sums_of_every_block(row):
    a, b, c = operands(row, np.random.default_rng(0))
    got = np.zeros_like(c)
    got[row.c.places] = row.multiply(a[row.a.places], b[row.b.places], c[row.c.places])
    expected = c.astype(np.float64) + np.einsum("bik,bjk->bij", a.astype(np.float64), b.astype(np.float64))
    assert np.array_equal(expected, got.astype(np.float64))


@pytest.mark.parametrize("dtype", ["f16", "bf16_1k"])
def test_gfx90a_takes_subnormal_elements_for_zero(dtype):
    plain, flushing = of_name(f"mfma_f32_16x16x16{dtype}"), of_name(f"mfma_f32_16x16x16{dtype}_flush")
    small = np.full((64, 4), np.nextafter(plain.a_dtype.numpy.type(0), plain.a_dtype.numpy.type(1)))
    ones, zeros = np.full((64, 4), 1, small.dtype), np.zeros((64, 4), np.float32)
    assert (flushing.multiply(small, ones, zeros) == 0).all()
    if dtype == "f16":  # the least bfloat16 is a subnormal float, too
        assert (plain.multiply(small, ones, zeros) == 16 * np.float32(small[0, 0])).all()


def test_xf32_drops_the_lowest_bits():
    row = of_name("mfma_f32_16x16x8_xf32")
    a = np.full((64, 2), np.float32(1) + np.float32(2) ** -12)
    assert (row.multiply(a, np.ones((64, 2), np.float32), np.zeros((64, 4), np.float32)) == 8).all()


def test_undefined_elements_reach_their_row_and_column():
    row = of_name("mfma_f32_32x32x8f16")
    a, b = np.ones(row.a.shape, bool), np.ones(row.b.shape, bool)
    a[0, 3, 5], b[0, 6, 0] = False, False
    expected = np.ones((1, 32, 32), bool)
    expected[0, 3, :], expected[0, :, 6] = False, False
    assert np.array_equal(expected[row.c.places], row.reaches(a[row.a.places], b[row.b.places]))


def test_slots_give_the_row_of_each_sum():
    for row in (row for row in MATRIX_INSTRUCTIONS if row.blocks == 1):
        for lane in (0, 17, row.wave - 1):
            for v in range(row.c.values):
                place, found = 1, 0
                for mode, is_value in row.slots:
                    count = v if is_value else lane // row.shape[0]
                    found += count // mode.stride[0] % mode.size * place
                    place *= mode.size
                assert found == row.c.table[lane, v, 1]
