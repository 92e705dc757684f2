from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import as_expr, int_const
from tilelang.language.address import Pointer


def test_a_pointer_moves_along_the_last_dimension():
    buffer = Buffer("A", (as_expr(4), as_expr(8)), DType("float32"), Scope.GLOBAL)
    pointer = Pointer(Region(buffer, (as_expr(2), as_expr(3)), (as_expr(1), as_expr(5))), "r")
    moved = pointer + 2
    assert [2, 5] == [int_const(e) for e in moved.region.start]
    assert [1, 1] == [int_const(e) for e in moved.region.extent]
    assert "r" == moved.mode
