"""Elements of regions by coordinate."""

from programs import index_var

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Load, Var, as_expr, const
from tilelang.ir.stmt import Alloc, Atomic, AtomicOp, Store
from tilelang.lowering.regions import (
    ZERO,
    axes,
    indices,
    load,
    may_overlap,
    same_region,
    shared_storages,
    slice_along,
    whole,
)
from tilelang.ops.copy import Copy

A = Buffer("A", tuple(as_expr(e) for e in (4, 6, 8)), FLOAT32, Scope.SHARED)
ROW = index_var("r")
REGION = Region(A, (ROW, as_expr(0), as_expr(2)), (as_expr(1), as_expr(6), as_expr(4)))


def box(buffer, start, extent):
    return Region(buffer, tuple(as_expr(e) for e in start), tuple(as_expr(e) for e in extent))


def test_unit_extents_take_no_coordinate():
    i, j = index_var("i"), index_var("j")
    assert (1, 2) == axes(REGION)
    at = indices(REGION, (i, j))
    assert at[0] is ROW
    assert at[1] is i
    assert load(REGION, (i, j)).buffer is A


def test_some_rows_or_columns_begin_where_the_region_does():
    some = slice_along(REGION, 2, 1, 2)
    assert same_region(Region(A, (ROW, as_expr(0), as_expr(3)), (as_expr(1), as_expr(6), as_expr(2))), some)
    assert same_region(REGION, slice_along(REGION, 2, 0, 4))


def test_regions_are_told_apart_by_constants_alone():
    left, right = box(A, (0, 0, 0), (4, 6, 4)), box(A, (0, 0, 4), (4, 6, 4))
    assert not may_overlap(left, right)
    assert may_overlap(left, whole(A))
    assert may_overlap(REGION, left)
    view = Buffer("V", (as_expr(192),), FLOAT32, Scope.SHARED, view_of=A)
    assert may_overlap(whole(view), left)
    assert not may_overlap(left, whole(Buffer("B", A.shape, FLOAT32, Scope.SHARED)))


def test_a_region_is_the_same_as_one_of_equal_parts():
    assert same_region(box(A, (0, 0, 0), (4, 6, 8)), whole(A))
    assert not same_region(REGION, whole(A))


def test_what_a_statement_touches_of_shared_memory():
    """An atomic load names its buffer by itself, an allocation touches nothing, and a view counts as what it views."""
    shared = Buffer("S", (const(4, INT32),), FLOAT32, Scope.SHARED)
    view = Buffer("V", (const(2, INT32), const(2, INT32)), FLOAT32, Scope.SHARED, view_of=shared)
    other = Buffer("A", (const(4, INT32),), FLOAT32, Scope.GLOBAL)
    loaded = Atomic(AtomicOp.LOAD, shared, (ZERO,), None, Var("x", FLOAT32))
    assert [shared] == list(shared_storages(loaded))
    assert [] == list(shared_storages(Alloc(shared)))
    assert [shared] == list(shared_storages(Store(other, (ZERO,), Load(view, (ZERO, ZERO), FLOAT32))))
    assert {shared} == set(shared_storages(Copy(whole(other), whole(view))))
