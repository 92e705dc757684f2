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
    # of 16x16x32 either order of k is right: A and B share it
    return 0, lane % 16, row.shape[2] // 2 * (lane // 16) + v


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


# Where AMD's calculator places some elements: block, row, k, then lane and value, of A; block, row, column, then lane and
# value, of the sums. Source: ROCm/amd_matrix_instruction_calculator 1.01, --get-register for CDNA 2 and RDNA 3
PLACES = {
    "mfma_f32_32x32x2f32": (
        ((0, 22, 0, 22, 0), (0, 7, 1, 39, 0), (0, 15, 0, 15, 0)),
        ((0, 15, 3, 35, 7), (0, 15, 24, 56, 7), (0, 26, 17, 17, 14)),
    ),
    "mfma_f32_16x16x4f32": (
        ((0, 12, 1, 28, 0), (0, 4, 0, 4, 0), (0, 5, 2, 37, 0)),
        ((0, 4, 14, 30, 0), (0, 6, 6, 22, 2), (0, 6, 6, 22, 2)),
    ),
    "mfma_f32_32x32x1f32": (
        ((0, 12, 0, 12, 0), (1, 10, 0, 42, 0), (1, 0, 0, 32, 0)),
        ((1, 1, 23, 23, 17), (1, 4, 21, 53, 16), (0, 19, 22, 22, 11)),
    ),
    "mfma_f32_16x16x1f32": (
        ((2, 15, 0, 47, 0), (1, 1, 0, 17, 0), (0, 13, 0, 13, 0)),
        ((1, 15, 15, 63, 7), (0, 11, 12, 44, 3), (3, 0, 14, 14, 12)),
    ),
    "mfma_f32_4x4x1f32": (
        ((1, 1, 0, 5, 0), (11, 2, 0, 46, 0), (9, 0, 0, 36, 0)),
        ((3, 1, 3, 15, 1), (14, 0, 2, 58, 0), (2, 1, 2, 10, 1)),
    ),
    "mfma_f32_32x32x8f16_flush": (
        ((0, 9, 5, 41, 1), (0, 19, 2, 19, 2), (0, 10, 0, 10, 0)),
        ((0, 5, 19, 51, 1), (0, 9, 19, 19, 5), (0, 25, 2, 2, 13)),
    ),
    "mfma_f32_32x32x8bf16_1k_flush": (
        ((0, 22, 4, 54, 0), (0, 2, 7, 34, 3), (0, 26, 1, 26, 1)),
        ((0, 26, 9, 9, 14), (0, 13, 8, 40, 5), (0, 27, 23, 23, 15)),
    ),
    "mfma_f32_16x16x16f16_flush": (
        ((0, 1, 13, 49, 1), (0, 14, 15, 62, 3), (0, 15, 12, 63, 0)),
        ((0, 4, 14, 30, 0), (0, 15, 8, 56, 3), (0, 3, 12, 12, 3)),
    ),
    "mfma_f32_16x16x16bf16_1k_flush": (
        ((0, 15, 10, 47, 2), (0, 11, 2, 11, 2), (0, 8, 15, 56, 3)),
        ((0, 2, 15, 15, 2), (0, 1, 9, 9, 1), (0, 9, 10, 42, 1)),
    ),
    "mfma_f32_32x32x4f16_flush": (
        ((0, 0, 3, 0, 3), (1, 18, 2, 50, 2), (1, 22, 1, 54, 1)),
        ((1, 20, 17, 49, 24), (1, 17, 22, 22, 25), (1, 23, 21, 53, 27)),
    ),
    "mfma_f32_32x32x4bf16_1k_flush": (
        ((0, 10, 1, 10, 1), (0, 26, 1, 26, 1), (0, 12, 1, 12, 1)),
        ((1, 30, 18, 50, 30), (1, 19, 17, 17, 27), (1, 11, 14, 14, 23)),
    ),
    "mfma_f32_16x16x4f16_flush": (
        ((1, 1, 3, 17, 3), (1, 3, 2, 19, 2), (0, 13, 3, 13, 3)),
        ((1, 5, 1, 17, 5), (1, 15, 6, 54, 7), (2, 12, 2, 50, 8)),
    ),
    "mfma_f32_16x16x4bf16_1k_flush": (
        ((1, 7, 2, 23, 2), (2, 13, 0, 45, 0), (0, 9, 2, 9, 2)),
        ((0, 11, 12, 44, 3), (2, 1, 9, 9, 9), (2, 11, 4, 36, 11)),
    ),
    "mfma_f32_4x4x4f16_flush": (
        ((13, 3, 2, 55, 2), (12, 3, 1, 51, 1), (0, 3, 0, 3, 0)),
        ((14, 1, 1, 57, 1), (4, 0, 2, 18, 0), (10, 1, 2, 42, 1)),
    ),
    "mfma_f32_4x4x4bf16_1k_flush": (
        ((12, 3, 3, 51, 3), (15, 3, 3, 63, 3), (15, 2, 3, 62, 3)),
        ((7, 3, 2, 30, 3), (5, 2, 2, 22, 2), (0, 2, 2, 2, 2)),
    ),
    "mfma_i32_32x32x8i8": (
        ((0, 18, 2, 18, 2), (0, 15, 4, 47, 0), (0, 30, 4, 62, 0)),
        ((0, 1, 7, 7, 1), (0, 8, 25, 25, 4), (0, 30, 2, 34, 14)),
    ),
    "mfma_i32_16x16x16i8": (
        ((0, 15, 8, 47, 0), (0, 15, 3, 15, 3), (0, 10, 9, 42, 1)),
        ((0, 9, 9, 41, 1), (0, 4, 9, 25, 0), (0, 14, 11, 59, 2)),
    ),
    "mfma_i32_32x32x4i8": (
        ((1, 8, 0, 40, 0), (0, 12, 0, 12, 0), (1, 30, 3, 62, 3)),
        ((0, 16, 29, 29, 8), (1, 27, 30, 30, 31), (0, 18, 29, 29, 10)),
    ),
    "mfma_i32_16x16x4i8": (
        ((0, 9, 0, 9, 0), (2, 4, 1, 36, 1), (1, 13, 0, 29, 0)),
        ((3, 9, 15, 47, 13), (3, 15, 10, 58, 15), (0, 7, 8, 24, 3)),
    ),
    "mfma_i32_4x4x4i8": (
        ((2, 0, 0, 8, 0), (12, 3, 0, 51, 0), (3, 1, 2, 13, 2)),
        ((10, 3, 0, 40, 3), (3, 0, 1, 13, 0), (14, 1, 1, 57, 1)),
    ),
    "mfma_f64_16x16x4f64": (
        ((0, 13, 1, 29, 0), (0, 12, 0, 12, 0), (0, 4, 0, 4, 0)),
        ((0, 6, 1, 33, 1), (0, 1, 3, 19, 0), (0, 2, 10, 42, 0)),
    ),
    "mfma_f64_4x4x4f64": (
        ((3, 3, 2, 47, 0), (2, 1, 2, 41, 0), (1, 2, 2, 38, 0)),
        ((2, 0, 1, 9, 0), (1, 2, 0, 36, 0), (1, 1, 2, 22, 0)),
    ),
    "wmma_f32_16x16x16_f16_w32": (
        ((0, 12, 5, 12, 5), (0, 1, 2, 1, 2), (0, 14, 15, 14, 15)),
        ((0, 0, 10, 10, 0), (0, 14, 7, 7, 7), (0, 3, 0, 16, 1)),
    ),
    "wmma_f32_16x16x16_bf16_w32": (
        ((0, 1, 4, 1, 4), (0, 15, 6, 15, 6), (0, 9, 10, 9, 10)),
        ((0, 7, 3, 19, 3), (0, 12, 11, 11, 6), (0, 12, 12, 12, 6)),
    ),
    "wmma_i32_16x16x16_iu8_w32_int8_int8": (
        ((0, 11, 9, 11, 9), (0, 5, 12, 5, 12), (0, 5, 6, 5, 6)),
        ((0, 11, 1, 17, 5), (0, 3, 1, 17, 1), (0, 1, 15, 31, 0)),
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_elements_are_where_the_calculator_of_amd_places_them(name):
    row = of_name(name)
    for layout, places in zip((row.a, row.c), PLACES[name], strict=True):
        for *element, lane, value in places:
            assert element == layout.table[lane, value].tolist()


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
    assert np.array_equal(expected[row.c.places], row.defined_sums(a[row.a.places], b[row.b.places]))


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
