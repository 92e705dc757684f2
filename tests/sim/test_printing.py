"""The text of `T.print`, exactly."""

import math

import numpy as np
import pytest

from tilelang.dtypes import as_dtype
from tilelang.sim.printing import label, number_text, scalar_text, tile_text

FLOAT = as_dtype("float32")


@pytest.mark.parametrize(
    ("message", "expected"), [("", ""), ("C[0] = ", "C[0] = "), ("acc:", "acc: "), ("x =", "x = "), ("hi", "hi: ")]
)
def test_a_message_is_set_off_from_the_value(message, expected):
    assert expected == label(message)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.5, "float32", "1.5"),
        (1 / 3, "float32", "0.333333"),
        (1e10, "float32", "1e+10"),
        (-0.0, "float32", "-0"),
        (math.nan, "float32", "nan"),
        (-math.nan, "float16", "nan"),
        (-math.inf, "bfloat16", "-inf"),
        (3, "int8", "3"),
        (2**63, "uint64", "9223372036854775808"),
        (-2, "int4", "-2"),
        (True, "bool", "True"),
        (False, "bool", "False"),
    ],
)
def test_numbers_read_as_printf_writes_them(value, dtype, expected):
    row = as_dtype(dtype)
    assert expected == number_text(np.asarray(value).astype(row.numpy)[()], row)


def test_a_scalar_without_a_message_is_named_by_its_source():
    assert "C[0] = 1.5" == scalar_text("", "C[0]", np.float32(1.5), FLOAT)
    assert "first: 1.5" == scalar_text("first", "C[0]", np.float32(1.5), FLOAT)
    assert "1.5" == scalar_text("", "", np.float32(1.5), FLOAT)


def test_tiles_show_their_rows_in_logical_order():
    assert "acc: C (2, 2) float32\n[[0, 1],\n [2, 3]]" == tile_text(
        "acc:", "C", np.arange(4, dtype="f").reshape(2, 2), FLOAT
    )


def test_tiles_of_one_and_three_dimensions():
    assert "x (3,) int32\n[0, 1, 2]" == tile_text("", "x", np.arange(3), as_dtype("int32"))
    expected = "x (2, 2, 2) int32\n[[[0, 1],\n  [2, 3]],\n [[4, 5],\n  [6, 7]]]"
    assert expected == tile_text("", "x", np.arange(8).reshape(2, 2, 2), as_dtype("int32"))


def test_a_tile_without_elements():
    assert "x (0, 3) float32\n[]" == tile_text("", "x", np.zeros((0, 3)), FLOAT)


def test_undefined_elements_show_as_question_marks():
    defined = np.array([[True, False]])
    assert "x (1, 2) float32\n[[1, ?]]" == tile_text("", "x", np.ones((1, 2)), FLOAT, defined)
