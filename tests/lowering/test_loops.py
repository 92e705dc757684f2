"""Operators as parallel loops; what the loops mean is tested with the pass that makes them."""

import pytest

from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import NoLowering
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Var, as_expr, const, int_const
from tilelang.ir.stmt import Alloc, ParallelLoop, Store
from tilelang.lowering.loops import copied_if_overlapping, expand_fill, move, parallel, scratch
from tilelang.lowering.regions import whole
from tilelang.ops.fill import Fill

S = Buffer("S", tuple(as_expr(e) for e in (8, 1, 6)), FLOAT32, Scope.SHARED)
N = Var("n", INT32, index=True)


def test_units_take_no_loop():
    build = Builder()
    move(build, whole(S), whole(Buffer("D", (as_expr(8), as_expr(6)), FLOAT32, Scope.FRAGMENT)))
    (loop,) = build.statements
    assert [8, 6] == [int_const(e) for e in loop.extents]
    assert isinstance(loop.body, Store)


def test_a_single_element_takes_no_loop_at_all():
    build = Builder()
    parallel(build, (), lambda at: build.emit(Store(S, (as_expr(0),) * 3, const(1, FLOAT32))))
    assert [Store] == [type(s) for s in build.statements]


def test_scratch_is_allocated_where_it_is_asked_for():
    build = Builder()
    made = scratch(build, "t", (4,), FLOAT32, Scope.SHARED)
    assert [Alloc] == [type(s) for s in build.statements]
    assert (4,) == made.static_extent


def test_only_what_may_overlap_is_copied():
    build = Builder()
    other = Buffer("O", S.shape, FLOAT32, Scope.SHARED)
    assert whole(S).buffer is copied_if_overlapping("T.copy", whole(S), whole(other), build).buffer
    assert [] == build.statements
    assert Scope.FRAGMENT is copied_if_overlapping("T.copy", whole(S), whole(S), build).buffer.scope
    assert [Alloc, ParallelLoop] == [type(s) for s in build.statements]


def test_an_overlap_of_unknown_extents_is_refused():
    part = Region(S, (as_expr(0),) * 3, (N, as_expr(1), as_expr(6)))
    with pytest.raises(NoLowering, match="whose extents are not constant"):
        copied_if_overlapping("T.copy", part, whole(S), Builder())


def test_a_value_that_must_be_computed_is_computed_once():
    build = Builder()
    expand_fill(Fill(whole(S), Var("x", FLOAT32) + 1.0), build)
    assert ["Bind", "ParallelLoop"] == [type(s).__name__ for s in build.statements]
