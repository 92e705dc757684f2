"""Where the iterations of nests over registers go, and which of them are independent."""

import numpy as np
import pytest

from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import NOWHERE
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, as_expr, const
from tilelang.ir.stmt import Bind, For, ForKind, Seq, Store
from tilelang.sim.register_nests import nest_of

I, J, OUTER = (Var(name, INT32, index=True) for name in ("i", "j", "outer"))


def array(name, *shape, scope=Scope.LOCAL, **more):
    return Buffer(name, tuple(const(extent, INT32) for extent in shape), FLOAT32, scope, **more)


A, B, SQUARE = array("a", 64), array("b", 64), array("s", 8, 8)


def loop(var, stop, body, start=0, step=1):
    return For(var, as_expr(start), as_expr(stop), step, ForKind.UNROLLED, body, loc=NOWHERE)


def at(buffer, *indices):
    return Load(buffer, tuple(as_expr(i) for i in indices), buffer.dtype)


def store(buffer, index, value):
    return Store(buffer, tuple(as_expr(i) for i in (index if isinstance(index, tuple) else (index,))), as_expr(value))


def free(*body, extents=(4, 2)):
    """Which loops of a nest over i and j are independent."""
    nest = nest_of(loop(I, extents[0], loop(J, extents[1], Seq(body))))
    places = nest.places()
    return None if places is None else nest.independent(places)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([store(A, I * 2 + J, at(B, I))], (True, True)),
        ([store(A, I * 2 + J, at(A, I * 2 + J) * 2.0)], (True, True)),
        ([store(A, I, at(A, I) + at(B, I * 2 + J))], (True, False)),
        ([store(A, J, at(A, J) + at(B, I * 2 + J))], (False, True)),
        ([store(A, 0, at(A, 0) + at(B, I * 2 + J))], (False, False)),
        ([store(A, I * 2 + J + 1, at(A, I * 2 + J))], (False, False)),
        ([store(A, I * 4 + J + 2, at(A, I * 4 + J))], (True, True)),  # odd pairs from even ones
        ([store(A, I + J, 0.0)], (False, False)),  # the last to write wins
        ([store(SQUARE, (I, J), at(SQUARE, I, 0))], (True, False)),
        ([store(A, OUTER * 8 + I * 2 + J, at(A, OUTER * 8 + I * 2 + J))], (True, True)),
        ([store(A, I * 2 + J - OUTER, at(A, I * 2 + J - OUTER))], (True, True)),
    ],
)
def test_iterations_that_access_what_another_one_writes_are_not_independent(body, expected):
    assert expected == free(*body)


@pytest.mark.parametrize(
    "body",
    [
        [store(A, I * 2 + J + OUTER, at(A, I * 2 + J))],  # by how much is not known
        [store(A, I * 2 + J, 0.0), store(array("view", 64, view_of=A), I * 2 + J, 0.0)],
        [store(A, I * OUTER + J, 0.0)],
        [store(array("shared", 64, scope=Scope.SHARED), I * 2 + J, 0.0)],
        [store(A, I * 2 + J, at(array("global", 64, scope=Scope.GLOBAL), I))],
        [Store(A, (I * 2 + J,), const(0.0, FLOAT32), asynchronous=True)],
    ],
)
def test_what_is_not_known_or_not_in_registers_is_left_alone(body):
    assert free(*body) is None


def test_bounds_must_be_constant_and_points_not_too_many():
    body = store(A, I, 0.0)
    assert nest_of(loop(I, OUTER, body)) is None
    assert nest_of(loop(I, 5000, body)).places() is None
    assert nest_of(loop(I, 0, body)).places() is None


def test_indices_that_64_bits_do_not_hold_are_left_alone():
    assert nest_of(loop(I, 8, store(A, I, at(B, I * 8 - I * 8)))).places()
    huge = at(B, I * (1 << 40) * (1 << 25) - I * (1 << 40) * (1 << 25))
    assert nest_of(loop(I, 8, store(A, I, huge))).places() is None


def test_a_nest_ends_where_something_stands_between_its_loops():
    inner = loop(J, 2, store(A, I * 2 + J, 0.0))
    assert (4, 2) == nest_of(loop(I, 4, Seq((inner,)))).extents
    assert (4,) == nest_of(loop(I, 4, Seq((store(B, I, 0.0), inner)))).extents


def test_values_of_variables_begin_and_step_as_the_loops_do():
    nest = nest_of(loop(I, -3, loop(J, 5, store(A, J, 0.0), start=1, step=2), start=3, step=-3))
    assert (2, 2) == nest.extents
    assert [3, 3, 0, 0] == nest.values[I].tolist()
    assert [1, 3, 1, 3] == nest.values[J].tolist()


def test_a_place_is_what_the_nest_decides_and_what_it_does_not():
    access = store(SQUARE, (I + OUTER, J - OUTER * 2), 0.0)
    nest = nest_of(loop(I, 2, loop(J, 2, access)))
    (place,) = nest.places().values()
    assert [[0, 0, 1, 1], [0, 1, 0, 1]] == [at.tolist() for at in place.at]
    assert [[False], [True]] == [[negative for negative, _ in terms] for terms in place.around]
    np.testing.assert_array_equal([0, 1, 8, 9], nest.offsets(SQUARE, place))


def test_points_of_independent_loops_stand_in_rows():
    nest = nest_of(loop(I, 2, loop(J, 3, store(A, I, 0.0))))
    assert [[0, 3], [1, 4], [2, 5]] == nest.order((True, False)).tolist()
    assert [[0, 1, 2], [3, 4, 5]] == nest.order((False, True)).tolist()
    assert [[0, 1, 2, 3, 4, 5]] == nest.order((True, True)).tolist()


def test_what_is_the_same_at_every_point_is_around_the_nest():
    bound = Var("bound", INT32, index=True)
    nest = nest_of(loop(I, 4, Seq((Bind(bound, I * 2), store(A, bound, 0.0)))))
    assert nest.is_around(OUTER * 2)
    assert not any(nest.is_around(expr) for expr in (I + OUTER, bound, at(B, 0)))
