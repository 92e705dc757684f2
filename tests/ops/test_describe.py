"""Operands as text, and the comparison of extents."""

from tilelang.dtypes import as_dtype
from tilelang.ir.expr import Var, as_expr
from tilelang.ops.describe import drop_units, extent_text, may_equal, operand_text, same_extents, shape_text

N = Var("n", as_dtype("int32"), index=True)


def test_extents_are_printed_as_written():
    assert "64" == extent_text(as_expr(64))
    assert "n * 2 + 1" == extent_text(N * 2 + 1)
    assert "(64,)" == shape_text([as_expr(64)])
    assert "()" == shape_text([])


def test_an_operand_is_its_name_and_extents(ops):
    assert "'A_s' is (n, 32)" == operand_text(ops.tile("A_s", (N, 32)))


def test_only_constants_can_disagree():
    assert may_equal(N, as_expr(3))
    assert may_equal(as_expr(3), as_expr(3))
    assert not may_equal(as_expr(3), as_expr(4))
    assert not same_extents([N], [N, N])


def test_unit_extents_are_dropped():
    assert (N,) == drop_units([as_expr(1), N, as_expr(1)])
