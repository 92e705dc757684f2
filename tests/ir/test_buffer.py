"""Properties of buffers and regions."""

import pytest

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Var, as_expr


def buffer(*shape: object, dtype: str = "float16", scope: Scope = Scope.SHARED) -> Buffer:
    return Buffer("A", tuple(as_expr(extent) for extent in shape), as_dtype(dtype), scope)


def test_the_bytes_of_a_buffer_of_constant_shape() -> None:
    tile = buffer(3, 4)
    assert (2, (3, 4), 24) == (tile.rank, tile.static_shape, tile.bytes)


def test_a_scalar_buffer_holds_one_element() -> None:
    assert (0, (), 2) == (buffer().rank, buffer().static_shape, buffer().bytes)


def test_a_symbolic_extent_has_no_static_shape_and_bytes() -> None:
    tile = buffer(3, Var("n", INT32, index=True))
    assert (None, None) == (tile.static_shape, tile.bytes)


def test_buffers_are_compared_by_identity() -> None:
    one, other = buffer(3), buffer(3)
    assert one != other
    assert {one: 1, other: 2}[one] == 1


def test_a_view_of_a_view_has_the_same_storage() -> None:
    owner = buffer(8)
    view = Buffer("V", (as_expr(2), as_expr(4)), as_dtype("float16"), Scope.SHARED, view_of=owner)
    again = Buffer("W", (as_expr(8),), as_dtype("float16"), Scope.SHARED, view_of=view)
    assert owner is again.storage
    assert owner is owner.storage


@pytest.mark.parametrize("scope", Scope)
def test_every_scope_but_the_global_one_is_on_chip(scope: Scope) -> None:
    assert (scope is not Scope.GLOBAL) == scope.on_chip


def test_static_extent_and_dtype_of_a_region() -> None:
    tile = buffer(8, 8)
    n = Var("n", INT32, index=True)
    assert (2, 8) == Region(tile, (n, as_expr(0)), (as_expr(2), as_expr(8))).static_extent
    assert Region(tile, (as_expr(0), as_expr(0)), (n, as_expr(8))).static_extent is None
    assert "float16" == Region(tile, (), ()).dtype
