import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Place, data_variables, index_conditions, index_expressions, mixed_expressions, places

from tilelang.arith.domain import Domain
from tilelang.arith.interval import Interval, bounds, computed
from tilelang.dtypes import FLOAT32, INT32, INT64, as_dtype
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, binary, cast, select
from tilelang.ir.scalar import BinaryOp

i, j, k, n = (Var(name, INT32, index=True) for name in "ijkn")
TILE = Domain().with_range(i, 0, 15).with_range(j, 0, 7)


@given(st.data(), st.integers(0, 999))
def test_bounds_hold_every_value_of_index_arithmetic(data, seed):
    place = data.draw(places())
    strategy = st.one_of(index_expressions(list(place.ranges), 4), index_conditions(list(place.ranges), 2))
    expr = data.draw(strategy)
    found = bounds(expr, place.domain)
    for point in place.points(seed):
        assert found.contains(int(evaluate(expr, point))), point


@given(st.data(), st.integers(0, 999))
def test_bounds_hold_every_value_of_data_wrapping_or_not(data, seed):
    place = data.draw(places(wide=True))
    numbers = data_variables()
    expr = data.draw(mixed_expressions(list(numbers), list(place.ranges), 3))
    found = bounds(expr, place.domain)
    for point in Place({**place.ranges, **numbers}, place.domain, place.conditions).points(seed):
        for exact in (False, True):
            assert found.contains(int(evaluate(expr, point, exact=exact))), point


@given(st.data(), st.integers(0, 999))
def test_bounds_of_what_is_computed_hold_every_value_that_wraps(data, seed):
    place = data.draw(places(wide=True))
    numbers = data_variables()
    expr = data.draw(mixed_expressions(list(numbers), list(place.ranges), 3))
    found = computed(expr, place.domain)
    for point in Place({**place.ranges, **numbers}, place.domain, place.conditions).points(seed):
        assert found.contains(int(evaluate(expr, point))), point


def test_data_that_is_computed_fits_into_its_dtype():
    x, y = (Var(name, INT32) for name in "xy")
    assert Interval(-(2**31), 2**31 - 1) == computed(x - y, TILE)
    assert Interval(-(2**23), 2**23 - 1) == computed((x - y + 255) // 256, TILE)
    assert Interval(0, 480) == computed(i * 32, TILE)


@pytest.mark.parametrize(
    ("expected", "expr"),
    [
        (Interval(0, 127), i * 8 + j),
        (Interval(0, 0), i - i),
        (Interval(0, 7), (i * 8 + j) - i * 8),
        (Interval(0, 15), (i * 8 + j) // 8),
        (Interval(0, 7), n % 8),
        (Interval(1, 7), binary(BinaryOp.MAX, binary(BinaryOp.MIN, n, 7), 1)),
        (Interval(0, 5), select(i < 5, i, 5)),
        (Interval(5, 15), select(i < 5, 5, i)),
        (Interval(-7, 15), i - j),
        (Interval(0, 15), cast(i, INT64)),
        (Interval(0, 225), i * i),
        (Interval(0, None), n * n),
        (Interval(1, 1), i < 16),
        (Interval(0, 1), i < 15),
        (Interval(0, 0), (n * 2 + 1) % 2 - 1),
        (Interval(0, 15), i & 15),
        (Interval(None, None), n),
        (Interval(None, None), cast(i, FLOAT32)),
    ],
)
def test_bounds_are_as_tight_as_one_expects(expected, expr):
    assert expected == bounds(expr, TILE)


def test_data_has_the_bounds_of_its_dtype():
    d = Var("d", as_dtype("uint8"))
    assert Interval(0, 255) == bounds(d, Domain())
    assert Interval(0, 510) == bounds(d + d, Domain())  # in index position it does not wrap
    assert Interval(-128, 127) == bounds(cast(d, as_dtype("int8")), Domain())
    assert Interval(0, 255) == bounds(cast(d, INT32), Domain())


def test_an_assumption_about_one_variable_narrows_it():
    assert Interval(3, 9) == bounds(n, Domain().assume(n > 2).assume(n <= 9))
    assert Interval(1, 9) == bounds(n, Domain().with_range(n, 0, 9).assume(n != 0))
    assert Interval(4, 4) == bounds(n, Domain().assume(n == 4))
    assert Interval(None, 6) == bounds(n, Domain().assume(n * 3 < 20))


def test_an_assumption_about_two_variables_narrows_both():
    domain = TILE.assume(i + 4 <= j)
    assert Interval(0, 3) == bounds(i, domain)
    assert Interval(4, 7) == bounds(j, domain)


def test_symbolic_ends_have_constant_bounds_too():
    domain = Domain().with_range(n, 0, 9).with_range(i, 0, n - 1)
    assert Interval(0, 8) == bounds(i, domain)
    assert Interval(1, 9) == bounds(n, domain)


def test_a_known_multiple_divides_exactly():
    domain = Domain().with_range(n, 0, None).assume(n % 128 == 0)
    assert Interval(0, 0) == bounds((n + 127) // 128 - n // 128, domain)


def test_bindings_have_the_bounds_of_their_values():
    assert Interval(0, 112) == bounds(k, TILE.with_value(k, i * 7 + j))
