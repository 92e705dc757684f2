"""Loop nests over regions."""

from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import as_expr, const, int_const
from tilelang.ir.stmt import Alloc, For, Store
from tilelang.ir.visit import walk
from tilelang.targets.cpu.lowerings.nest import assign, nest, read, scratch, variable

A = Buffer("A", tuple(as_expr(e) for e in (4, 6, 8)), FLOAT32, Scope.SHARED)


def test_loops_run_in_row_major_order():
    build = Builder()
    nest(build, [as_expr(2), as_expr(3)], lambda at: build.emit(Store(A, (as_expr(0), *at), const(0, FLOAT32))))
    found = list(walk(build.finish()))
    assert [("i", 2), ("j", 3)] == [(s.var.name, int_const(s.stop)) for s in found if isinstance(s, For)]


def test_scalars_and_scratch_are_allocated_in_place():
    build = Builder()
    total = variable(build, "total", FLOAT32, const(0, FLOAT32))
    row = scratch(build, "row", (3, 5), FLOAT32)
    assign(build, total, read(total) + 1.0)
    kinds = [type(s) for s in build.statements]
    assert [Alloc, Alloc, Store] == kinds
    assert (3, 5) == row.static_extent
