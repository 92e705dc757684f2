"""`T.fill`: checks and reference."""

import numpy as np
import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import as_expr
from tilelang.ops.fill import Fill


def test_a_fill_writes_its_region_only(ops):
    dst = ops.tile("A", (4, 4))
    a = np.zeros((4, 4), "f")
    ops.apply(Fill(ops.region(dst.buffer, (1, 2), (0, 3)), as_expr(2.5)), {dst: a})
    expected = np.zeros((4, 4), "f")
    expected[1:3, :3] = 2.5
    np.testing.assert_array_equal(expected, a)


@pytest.mark.parametrize(("dtype", "value", "expected"), [("int8", 300, 44), ("int32", 2.9, 2), ("bool", 7, True)])
def test_the_value_is_converted(ops, dtype, value, expected):
    dst = ops.tile("A", (2,), dtype)
    a = np.zeros(2, as_dtype(dtype).numpy)
    ops.apply(Fill(dst, as_expr(value)), {dst: a})
    assert [expected, expected] == a.tolist()


def test_a_fill_writes_and_reads_nothing(ops):
    fill = Fill(ops.tile("A", (2,)), as_expr(0))
    assert ((), (fill.dst,)) == (fill.reads(), fill.writes())


def test_vector_dtypes_cannot_be_filled(ops):
    with pytest.raises(ProgramError, match="T.fill: 'A' holds float16x2, and vector dtypes have no arithmetic"):
        Fill(ops.tile("A", (2,), "float16x2"), as_expr(0)).check()


def test_barriers_cannot_be_filled(ops):
    with pytest.raises(ProgramError, match="T.fill: 'bar' is a barrier"):
        Fill(ops.tile("bar", (2,), scope=Scope.BARRIER), as_expr(0)).check()
