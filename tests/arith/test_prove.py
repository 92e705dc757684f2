import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Place, data_variables, index_conditions, mixed_conditions, places

from tilelang.arith.domain import Domain
from tilelang.arith.prove import decide, proves
from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var, binary, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp


def index(name: str) -> Var:
    return Var(name, INT32, index=True)


bx, i, j, k, M, N, K, n, m, x = (index(name) for name in ("bx", "i", "j", "k", "M", "N", "K", "n", "m", "x"))
f, g = Var("f", FLOAT32), Var("g", FLOAT32)
DIMS = Domain().with_range(M, 0).with_range(N, 0).with_range(K, 0).with_range(n, 0).with_range(m, 0)
TILE = DIMS.with_range(i, 0, 127).with_range(j, 0, 31)


def ceildiv(a: Expr, b: int) -> Expr:
    return (a + (b - 1)) // b


def both(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.AND, a, b)


def least(a: object, b: object) -> Expr:
    return binary(BinaryOp.MIN, a, b)


def check_sound(condition: Expr, place: Place, seed: int) -> None:
    known = decide(condition, place.domain)
    if known is not None:
        for point in place.points(seed):
            for exact in (False, True):
                assert bool(evaluate(condition, point, exact=exact)) is known, point


@given(st.data(), st.integers(0, 999))
def test_what_is_proven_of_index_arithmetic_is_true_everywhere(data, seed):
    place = data.draw(places())
    check_sound(data.draw(index_conditions(list(place.ranges), 2)), place, seed)


@given(st.data(), st.integers(0, 999))
def test_what_is_proven_of_data_is_true_wrapping_or_not(data, seed):
    place = data.draw(places(wide=True))
    numbers = data_variables()
    condition = data.draw(mixed_conditions(list(numbers), list(place.ranges), 2))
    check_sound(condition, Place({**place.ranges, **numbers}, place.domain, place.conditions), seed)


@given(st.data(), st.integers(0, 999))
def test_what_follows_from_assumptions_is_true_where_they_hold(data, seed):
    place = data.draw(places())
    variables = list(place.ranges)
    first, second = data.draw(index_conditions(variables, 1)), data.draw(index_conditions(variables, 1))
    place = Place(place.ranges, place.domain.assume(first).assume(second), (*place.conditions, first, second))
    check_sound(data.draw(index_conditions(variables, 1)), place, seed)


@pytest.mark.parametrize(
    ("condition", "domain"),
    [
        # a grid over a constant extent
        (bx * 128 + i < 1024, TILE.with_range(bx, 0, 7)),
        (bx * 128 + i >= 0, TILE.with_range(bx, 0, None)),
        # over a symbolic extent that tiles divide
        (bx * 128 + i < M, TILE.assume(M % 128 == 0).with_range(bx, 0, ceildiv(M, 128) - 1)),
        (bx * 128 + i < M, TILE.with_range(bx, 0, M // 128 - 1)),
        (bx * 128 + i < M * 128, TILE.with_range(bx, 0, M - 1)),
        # the first element of every tile exists even where tiles do not divide
        (k * 32 < K, DIMS.with_loop(k, 0, ceildiv(K, 32))),
        (K - k * 32 >= 1, DIMS.with_loop(k, 0, ceildiv(K, 32))),
        # row-major order over symbolic extents
        (i * n + j < m * n, DIMS.with_range(i, 0, m - 1).with_range(j, 0, n - 1)),
        (i * n + j >= 0, DIMS.with_range(i, 0, m - 1).with_range(j, 0, n - 1)),
        ((i * n + j) // n == i, DIMS.with_range(i, 0, m - 1).with_range(j, 0, n - 1)),
        ((i * n + j) % n == j, DIMS.with_range(i, 0, m - 1).with_range(j, 0, n - 1)),
        (i // 2 < n, DIMS.with_extents([i], [n * 2])),
        (i // 6 < n * 128, DIMS.with_extents([i], [n * 768])),
        # facts of a guard
        (k * 32 + j < K, TILE.with_range(k, 0).assume(k * 32 + 31 < K)),
        (k * 32 + j < K, TILE.with_range(k, 0).assume(j < least(32, K - k * 32))),
        (i < n, DIMS.assume(both(i < m, m <= n))),
        (i < n, DIMS.assume(unary(UnaryOp.NOT, i >= n))),
        (i * 2 < n, DIMS.assume(i * 4 < n * 2)),
        (least(i, n) <= i, Domain()),
        (least(M - i, 128) > 0, TILE.assume(i < M)),
        (binary(BinaryOp.MAX, i, n) >= n, Domain()),
        (select(f < g, i, j) < 128, TILE),
        (select(i < n, i, 0) < n, DIMS.assume(n > 0)),
        # divisibility
        (x // 4 * 4 + x % 4 == x, Domain()),
        (x * 4 + 1 != i * 2, Domain()),
        (k % 32 == 0, Domain().with_loop(k, 0, 1024, 32)),
        (k + 31 < 1024, Domain().with_loop(k, 0, 1024, 32)),
        (k // 32 * 32 == k, Domain().with_loop(k, 0, 1024, 32)),
        # loops that count down
        (both(k >= 1, k <= 8), Domain().with_loop(k, 8, 0, -1)),
        (both(k >= 2, k <= 8), Domain().with_loop(k, 8, 0, -2)),
        # truth values
        (binary(BinaryOp.OR, i < n, i >= n), Domain()),
        (f < g, Domain().assume(f < g)),
        (i == i, Domain()),
    ],
)
def test_what_kernels_need_is_proven(condition, domain):
    assert proves(condition, domain)


@pytest.mark.parametrize(
    ("condition", "domain"),
    [
        (bx * 128 + i < M, TILE.with_range(bx, 0, ceildiv(M, 128) - 1)),
        (bx * 128 + i < 1000, TILE.with_range(bx, 0, 7)),
        (i < n, DIMS),
        (n > 0, DIMS),
        (i * n // n == i, DIMS),  # n may be 0
        (f == f, Domain()),  # NaN
        (f < g, Domain().assume(unary(UnaryOp.NOT, f >= g))),  # NaN again
        (Var("d", as_dtype("int8")) + 1 > Var("d", as_dtype("int8")), Domain()),
    ],
)
def test_what_is_not_so_is_not_proven(condition, domain):
    assert not proves(condition, domain)


def test_a_condition_may_be_known_never_to_hold():
    assert decide(i >= 128, TILE) is False
    assert decide(i >= 64, TILE) is None
    assert decide(binary(BinaryOp.AND, i >= 64, i < 0), TILE) is False


def test_numbers_count_as_truth_values():
    assert proves(i + 1, TILE)
    assert decide(i - i, TILE) is False
    assert decide(i, TILE) is None


def test_a_bound_value_counts_as_its_definition():
    domain = TILE.with_range(bx, 0, 7).with_value(x, bx * 128)
    assert proves(x + i < 1024, domain)
    assert proves(x % 128 == 0, domain)


def test_questions_without_an_answer_are_given_up_soon():
    domain = TILE
    for a in (bx, k, x, i, j):
        for b in (M, N, K, n, m):
            domain = domain.assume(a * 3 + b < b * 2 + i)
    start = time.perf_counter()
    assert not proves(bx * n * m + k * M < N * x * K + j, domain)
    assert time.perf_counter() - start < 1.0
