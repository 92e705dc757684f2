"""Loop nests over regions."""

from programs import index_var

from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import as_expr, const, int_const
from tilelang.ir.stmt import Alloc, For, Store
from tilelang.ir.visit import walk
from tilelang.lowering.cpu.nest import assign, axes, indices, load, nest, read, scratch, variable

A = Buffer("A", tuple(as_expr(e) for e in (4, 6, 8)), FLOAT32, Scope.SHARED)
ROW = index_var("r")
REGION = Region(A, (ROW, as_expr(0), as_expr(2)), (as_expr(1), as_expr(6), as_expr(4)))


def test_unit_extents_take_no_coordinate():
    i, j = index_var("i"), index_var("j")
    assert (1, 2) == axes(REGION)
    at = indices(REGION, (i, j))
    assert at[0] is ROW
    assert at[1] is i
    assert load(REGION, (i, j)).buffer is A


def test_loops_run_in_row_major_order():
    build = Builder()
    nest(build, [as_expr(2), as_expr(3)], lambda at: build.emit(Store(A, (as_expr(0), *at), const(0, FLOAT32))))
    found = list(walk(build.finish()))
    assert [("i", 2), ("j", 3)] == [(s.var.name, int_const(s.stop)) for s in found if isinstance(s, For)]


def test_scalars_and_scratch_are_allocated_where_they_are_asked_for():
    build = Builder()
    total = variable(build, "total", FLOAT32, const(0, FLOAT32))
    row = scratch(build, "row", (3, 5), FLOAT32)
    assign(build, total, read(total) + 1.0)
    kinds = [type(s) for s in build.statements]
    assert [Alloc, Alloc, Store] == kinds
    assert (3, 5) == row.static_extent
