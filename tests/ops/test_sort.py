"""`T.sort` and `T.topk`."""

import numpy as np
import pytest

from tilelang.dtypes import INT32
from tilelang.errors import ProgramValueError
from tilelang.ir.expr import Var
from tilelang.ops.sort import Sort, TopK

VALUES = np.array([[3, np.nan, 1, 3, -np.inf], [0, -0.0, np.nan, np.nan, 2]], "f")
UP = [[4, 2, 0, 3, 1], [0, 1, 4, 2, 3]]
DOWN = [[1, 0, 3, 2, 4], [2, 3, 4, 0, 1]]


@pytest.mark.parametrize("descending", [False, True])
def test_nan_is_greatest_and_the_sort_is_stable(ops, descending):
    src, dst, places = ops.tile("S", (2, 5)), ops.tile("D", (2, 5)), ops.tile("I", (2, 5), "int32")
    payload = ops.tile("P", (2, 5), "int32")
    ordered, where, moved = np.zeros((2, 5), "f"), np.zeros((2, 5), np.int32), np.tile(np.arange(5, dtype=np.int32), (2, 1))
    sort = Sort(src, 1, descending, dst, places, payload=(payload,))
    ops.apply(sort, {src: VALUES.copy(), dst: ordered, places: where, payload: moved})
    expected = DOWN if descending else UP
    assert expected == where.tolist() == moved.tolist()
    np.testing.assert_array_equal(np.take_along_axis(VALUES, np.array(expected), 1), ordered)


def test_topk(ops):
    src, places = ops.tile("S", (2, 5)), ops.tile("I", (2, 3), "int32")
    where = np.zeros((2, 3), np.int32)
    ops.apply(TopK(src, 1, True, None, places, count=3), {src: VALUES.copy(), places: where})
    assert [line[:3] for line in DOWN] == where.tolist()


def test_invalid_sorts_are_refused(ops):
    n = Var("n", INT32, index=True)
    with pytest.raises(ProgramValueError, match="only tiles of constant extents are sorted"):
        Sort(ops.tile("S", (n, 5)), 1, False, None, None).check()
    with pytest.raises(ProgramValueError, match=r"give 'D' the shape \(2, 3\)"):
        try:
            TopK(ops.tile("S", (2, 5)), 1, True, ops.tile("D", (2, 4)), None, count=3).check()
        except ProgramValueError as error:
            raise ProgramValueError(error.hint) from None
