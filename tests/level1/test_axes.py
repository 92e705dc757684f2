"""Tests for tilelang.level1.axes."""

import pytest
from array_functions import traced

from tilelang.errors import ProgramIndexError, ProgramTypeError, ProgramValueError
from tilelang.level1.axes import axes_of, axis_of


def test_axes_count_from_either_end() -> None:
    x = traced(2, 3, 4)
    assert [0, 2, 2] == [axis_of("tnp.f", axis, x) for axis in (0, 2, -1)]
    assert 3 == axis_of("tnp.f", -1, x, new=1)


def test_several_axes_are_in_order() -> None:
    x = traced(2, 3, 4)
    assert (0, 1, 2) == axes_of("tnp.f", None, x)
    assert (0, 2) == axes_of("tnp.f", (-1, 0), x)
    assert (1,) == axes_of("tnp.f", 1, x)
    assert () == axes_of("tnp.f", (), x)


def test_axes_that_there_are_not() -> None:
    with pytest.raises(ProgramIndexError) as error:
        axis_of("tnp.f", -4, traced(2, 3, 4))
    assert str(error.value) == "tnp.f: axis -4 is out of range of an array of shape (2, 3, 4)\nhint: axes go from -3 to 2"


def test_axes_that_are_no_integers() -> None:
    with pytest.raises(ProgramTypeError) as error:
        axis_of("tnp.f", 1.0, traced(2))
    assert str(error.value) == "tnp.f: axis is 1.0, not an int"


def test_axes_that_are_named_twice() -> None:
    with pytest.raises(ProgramValueError) as error:
        axes_of("tnp.f", (0, 0), traced(2))
    assert str(error.value) == "tnp.f: axis (0, 0) names an axis twice"
