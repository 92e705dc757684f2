"""What statements touch of a thread's arrays, element by element where that is known."""

import pytest

from tilelang.analysis.register_accesses import conflict, register_accesses
from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Load, Var, as_expr, const
from tilelang.ir.stmt import CallStmt, For, ForKind, Store
from tilelang.targets.nvidia.isa.ldmatrix import ldmatrix

ZERO, ONE = Const(0.0, FLOAT32), const(1, INT32)
I, J = (Var(name, INT32, index=True) for name in "ij")


def array(name, *shape, scope=Scope.LOCAL):
    return Buffer(name, tuple(const(e, INT32) for e in shape), FLOAT32, scope)


A, B = array("a", 32), array("b", 32)
SHARED = array("s", 64, scope=Scope.SHARED)


def write(buffer, *indices, value=ZERO):
    return Store(buffer, tuple(as_expr(i) for i in indices), value)


def read(buffer, *indices):
    return write(B, 0, value=Load(buffer, tuple(as_expr(i) for i in indices), FLOAT32))


def loop(var, start, stop, body):
    return For(var, const(start, INT32), const(stop, INT32), 1, ForKind.UNROLLED, body)


def changes_place(first, second):
    return not conflict(register_accesses([first]), register_accesses([second]))


@pytest.mark.parametrize(
    ("first", "second", "free"),
    [
        (write(A, 0), write(A, 1), True),
        (write(A, 0), write(A, 0), False),
        (write(A, 0), read(A, 0), False),
        (write(A, 0), read(A, 1), True),
        (read(A, 0), write(SHARED, 0), True),
        (loop(I, 0, 4, write(A, I * 2)), loop(I, 0, 4, write(A, I * 2 + 1)), True),
        (loop(I, 0, 4, loop(J, 1, 3, write(A, I * 8 + J))), write(A, 10), False),
        (loop(I, 0, 4, loop(J, 1, 3, write(A, I * 8 + J))), write(A, 11), True),
        (loop(I, 0, 2, write(A, I % 2 * 16)), loop(J, 1, 16, write(A, J)), True),
        (write(A, I), write(A, 31), False),
    ],
)
def test_elements_are_exact_where_loops_have_constant_extents(first, second, free):
    assert free is changes_place(first, second) is changes_place(second, first)


def test_reads_may_change_places():
    assert changes_place(write(A, 0, value=Load(B, (ONE,), FLOAT32)), write(A, 1, value=Load(B, (ONE,), FLOAT32)))


def test_a_vector_access_covers_its_neighbors():
    pair = Const(0.0, as_dtype("float32x2"))
    assert not changes_place(write(A, 4, value=pair), write(A, 5))
    assert changes_place(write(A, 4, value=pair), write(A, 6))


def test_regions_of_instructions():
    def load(start):
        target = Region(A, (as_expr(start),), (const(4, INT32),))
        return CallStmt(ldmatrix(4), (target, Region(SHARED, (const(0, INT32),), (ONE,))), (), (target,))

    assert changes_place(loop(I, 0, 2, load(I * 4)), loop(I, 2, 4, load(I * 4)))
    assert not changes_place(loop(I, 0, 2, load(I * 4)), write(A, 7))


def test_of_arrays_of_more_dimensions_and_of_views_everything_counts():
    wide = array("w", 4, 4)
    assert not changes_place(write(wide, 0, 0), write(wide, 1, 1))
    view = Buffer("v", (const(32, INT32),), FLOAT32, Scope.LOCAL, view_of=A)
    assert not changes_place(write(A, 0), write(view, 1))
