"""How far an access moves with a loop variable."""

import pytest
from programs import index_var

from tilelang.analysis.strides import coefficient, stride_along
from tilelang.dtypes import FLOAT32, INT64
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Cast, as_expr

i, j, n = index_var("i"), index_var("j"), index_var("n")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (i + j, 1),
        (j - i * 3, -3),
        (-(i + 2) * 4, -4),
        (2 * i + i, 3),
        (j * n, 0),
        (i * n, None),
        (i // 2, None),
        (j // 2, 0),
        (Cast(i * 5, INT64), 5),
    ],
)
def test_coefficients_of_a_variable(expr, expected):
    assert expected == coefficient(expr, i)


def test_strides_follow_rows_and_declared_strides():
    dense = Buffer("A", (n, as_expr(6)), FLOAT32, Scope.GLOBAL)
    turned = Buffer("B", (as_expr(6), n), FLOAT32, Scope.GLOBAL)
    strided = Buffer("C", (as_expr(6), as_expr(6)), FLOAT32, Scope.GLOBAL, strides=(as_expr(1), n))
    assert [1, 6, 13] == [stride_along(dense, at, i) for at in ((j, i), (i, j), (i * 2, j + i))]
    assert [1, None] == [stride_along(turned, at, i) for at in ((j, i), (i, j))]
    assert [None, 1] == [stride_along(strided, at, i) for at in ((j, i), (i, j))]
