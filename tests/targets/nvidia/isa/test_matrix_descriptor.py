"""Descriptors: their bits, and where they say that operands lie, against layouts as tensor copies write them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import as_dtype
from tilelang.errors import SimulationError
from tilelang.layout.boxes import boxed
from tilelang.layout.shared_memory import offsets
from tilelang.targets.nvidia.isa.matrix_descriptor import Operand, encode

F16 = as_dtype("float16")


def test_the_bits_are_those_of_the_manual():
    assert encode(0x12340, 16, 1024, 128) == 0x1234 | 1 << 16 | 64 << 32 | 1 << 62
    assert [encode(0, 0, 0, mode) >> 62 for mode in (0, 128, 64, 32)] == [0, 1, 2, 3]
    assert encode(1 << 18, 0, 0, 0) == 0  # addresses have 18 bits


def elements(operand, descriptor):
    """The byte of every element of (rows, depth)."""
    size = operand.dtype.numpy.itemsize
    at = operand.chunks(descriptor)[..., None] + np.arange(0, 16, size)
    lines = at.reshape(len(at), -1)
    return lines.T if operand.transposed else lines


ROW_BYTES = st.sampled_from([128, 64, 32, 16])


@given(ROW_BYTES, st.sampled_from(["float16", "tfloat32", "int8"]), st.integers(1, 3), st.integers(0, 3), st.data())
def test_operands_along_k(row_bytes, name, boxes, start, data):
    dtype = as_dtype(name)
    size = dtype.numpy.itemsize
    rows, columns = 64, boxes * max(row_bytes, 32) // size
    operand = Operand(rows, dtype, False)
    places = offsets(boxed((rows, columns), 8 * size, row_bytes)) * size
    k = operand.depth * data.draw(st.integers(0, columns // operand.depth - 1))
    base = 1024 * start
    first = base + (k * size // row_bytes * rows * row_bytes + k * size % row_bytes)
    leading, stride = (7, 8 * row_bytes) if row_bytes > 16 else (rows * 16, 128)
    found = elements(operand, encode(first, leading, stride, row_bytes if row_bytes > 16 else 0))
    np.testing.assert_array_equal(found, base + places[:, k : k + operand.depth])


@given(ROW_BYTES, st.integers(1, 3), st.integers(0, 3), st.data())
def test_operands_along_rows(row_bytes, boxes, start, data):
    wide, depth = row_bytes // 2, 48
    columns = boxes * wide
    rows = 8 * data.draw(st.integers(1, columns // 8))
    operand = Operand(rows, F16, True)
    places = offsets(boxed((depth, columns), 16, row_bytes)) * 2
    k = 16 * data.draw(st.integers(0, 2))
    base, box = 1024 * start, depth * row_bytes
    leading, stride = (box, 8 * row_bytes) if row_bytes > 16 else (128, box)
    found = elements(operand, encode(base + k * row_bytes, leading, stride, row_bytes if row_bytes > 16 else 0))
    np.testing.assert_array_equal(found, base + places[k : k + 16, :rows].T)


@pytest.mark.parametrize("transposed", [False, True])
def test_contents_become_a_matrix(transposed):
    operand = Operand(16, F16, transposed)
    values = np.arange(256, dtype=np.float16).reshape(16, 16)
    chunks = np.ascontiguousarray(values).view(np.uint8).reshape(16, 2, 16)
    np.testing.assert_array_equal(operand.matrix(chunks), values.T if transposed else values)
    known = np.ones((16, 2, 16), bool)
    known[3, 1, 5] = False  # a byte of element 2 of the second chunk
    assert [[10, 3] if transposed else [3, 10]] == np.argwhere(~operand.defined(known)).tolist()


def test_a_base_offset_means_nothing_we_know_of():
    with pytest.raises(SimulationError, match="base offset"):
        Operand(8, F16, False).chunks(1 << 49)
