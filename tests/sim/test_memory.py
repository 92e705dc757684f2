"""Boxes in numbers, poison, and windows on bytes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import ArgumentError, OutOfBounds, ReadBeforeWrite
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr, int_const
from tilelang.sim.memory import Memory, poison


def buffer(name, shape, dtype="float32", scope=Scope.SHARED, view_of=None):
    return Buffer(name, tuple(map(as_expr, shape)), as_dtype(dtype), scope, view_of=view_of)


def memory():
    return Memory(lambda exprs: tuple(int_const(e) or 0 for e in exprs))


@pytest.mark.parametrize("dtype", list(SCALARS.values()))
def test_undefined_memory_shows(dtype):
    value = poison(dtype)
    assert dtype.numpy == np.asarray(value).dtype
    if dtype.is_float and np.isnan(np.float32(np.nan).astype(dtype.numpy)):
        assert math.isnan(float(value))
    else:
        assert value != 0


@pytest.mark.parametrize("dtype", ["bool", "int4", "float8_e5m2", "bfloat16", "int64", "float16x4"])
def test_what_is_written_is_read_back_and_nothing_else_is_defined(dtype):
    mine = memory()
    b = buffer("b", (2, 3), dtype)
    mine.allocate(b)
    cells = mine.cells(b)
    cells.store((1, 2), cells.data[0, 0])
    assert cells.data[0, 0].tobytes() == cells.load((1, 2)).tobytes()
    with pytest.raises(ReadBeforeWrite, match=r"b\[1, 1\]"):
        cells.load((1, 1))
    with pytest.raises(ReadBeforeWrite, match=r"b\[1, 0\]"):
        cells.read(cells.box((1, 0), (1, 3)))
    assert 1 == cells.fetch(cells.box((0, 0), (2, 3)))[1].reshape(6, -1).all(axis=1).sum()


@given(
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.tuples(st.integers(-6, 6), st.integers(-6, 6)),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_boxes_of_global_memory_are_clipped_element_by_element(shape, start, extent):
    mine = memory()
    b = buffer("b", shape, "int32", Scope.GLOBAL)
    array = np.arange(1, 1 + math.prod(shape), dtype=np.int32).reshape(shape)
    mine.bind(b, array)
    cells = mine.cells(b)
    box = cells.box(start, extent)

    def inside(i, j):
        return 0 <= i < shape[0] and 0 <= j < shape[1]

    expected = [
        [int(array[i, j]) if inside(i, j) else 0 for j in range(start[1], start[1] + extent[1])]
        for i in range(start[0], start[0] + extent[0])
    ]
    assert expected == cells.read(box).tolist()
    values = -np.arange(1, 1 + math.prod(extent), dtype=np.int32).reshape(extent)
    wanted = array.copy()
    for i, j in np.ndindex(*extent):
        if inside(start[0] + i, start[1] + j):
            wanted[start[0] + i, start[1] + j] = values[i, j]
    cells.write(box, values)
    np.testing.assert_array_equal(wanted, array)


@given(st.integers(-3, 6), st.integers(0, 6))
def test_boxes_of_on_chip_memory_stay_inside(start, extent):
    mine = memory()
    b = buffer("b", (4,))
    mine.allocate(b)
    if extent == 0 or 0 <= start <= 4 - extent:
        assert (start, extent) == (mine.cells(b).box((start,), (extent,)).start[0], extent)
    else:
        at = start if start < 0 or start >= 4 else 4
        with pytest.raises(OutOfBounds, match=rf"b\[{at}\]: index {at} is outside dimension 0, which has extent 4"):
            mine.cells(b).box((start,), (extent,))


def test_one_value_fills_a_box():
    mine = memory()
    b = buffer("b", (2, 2))
    mine.allocate(b)
    cells = mine.cells(b)
    cells.write(cells.box((0, 0), (2, 2)), np.asarray(np.float32(3)))
    assert [[3, 3], [3, 3]] == cells.read(cells.box((0, 0), (2, 2))).tolist()


def test_strided_arguments_are_used_where_they_lie():
    mine = memory()
    base = np.arange(12, dtype="f").reshape(3, 4)
    b = buffer("b", (4, 3), scope=Scope.GLOBAL)
    mine.bind(b, base.T)
    assert 6 == mine.cells(b).load((2, 1))
    mine.cells(b).store((2, 1), np.float32(-1))
    assert -1 == base[1, 2]


def test_a_view_needs_a_dense_argument():
    mine = memory()
    b = buffer("b", (4, 3), scope=Scope.GLOBAL)
    mine.bind(b, np.zeros((3, 4), "f").T)
    with pytest.raises(ArgumentError) as error:
        mine.cells(buffer("flat", (12,), scope=Scope.GLOBAL, view_of=b))
    assert "'b': expected a dense row-major array, because 'flat' is a view of it" == error.value.message


def test_a_loaded_vector_keeps_its_value():
    mine = memory()
    b = buffer("b", (1,), "int32x2", Scope.GLOBAL)
    mine.bind(b, np.array([[1, 2]], np.int32))
    old = mine.cells(b).load((0,))
    mine.cells(b).store((0,), np.array([3, 4], np.int32))
    assert [1, 2] == old.tolist()
