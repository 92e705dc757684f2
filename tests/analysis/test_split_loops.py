"""Where a loop is split so that tests hold in its middle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import index_var

from tilelang.analysis.split_loops import plan_split
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load, as_expr, binary, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Break, For, ForKind, If, Seq, Store

i, n = index_var("i"), index_var("n")
A = Buffer("A", (as_expr(64),), FLOAT32, Scope.SHARED)
STORE = Store(A, (i,), const(0, FLOAT32))


def loop(body=STORE, step=1):
    return For(i, as_expr(0), as_expr(16), step, ForKind.SERIAL, body)


COMPARISONS = st.sampled_from([BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE])


@given(COMPARISONS, st.integers(-3, 3), st.integers(-20, 20), st.integers(-20, 20))
def test_a_test_holds_exactly_between_the_ends(op, factor, shift, value):
    test = binary(op, i * factor + shift, n)
    split = plan_split(loop(), [test])
    lower = [evaluate(end, {n: value}) for end, _ in split.lower.values()]
    upper = [evaluate(end, {n: value}) for end, _ in split.upper.values()]
    for point in range(-40, 40):
        holds = bool(evaluate(test, {i: point, n: value}))
        if factor:
            assert holds == (all(point >= low for low in lower) and all(point < high for high in upper))
        else:
            assert ([test], [], []) == (split.invariant, lower, upper)


def test_tests_with_one_end_share_it():
    split = plan_split(loop(), [i + 1 < n, i + 1 < n, 0 <= i - n])
    assert [2] == [len(tests) for _, tests in split.upper.values()]
    assert 3 == len(split.varying)


@pytest.mark.parametrize(
    "test",
    [
        binary(BinaryOp.EQ, i, n),
        i * i < n,
        i < Load(Buffer("B", (as_expr(4),), INT32, Scope.SHARED), (as_expr(0),), INT32),
    ],
)
def test_tests_that_are_not_monotone_or_may_change_are_left_alone(test):
    split = plan_split(loop(), [test])
    assert ([], []) == (split.invariant, split.varying)


def test_a_test_on_an_inner_variable_is_left_to_the_inner_loop():
    j = index_var("j")
    inner = For(j, as_expr(0), as_expr(4), 1, ForKind.SERIAL, STORE)
    assert [] == plan_split(loop(inner), [i + j < n]).varying


def test_loops_that_may_be_left_early_are_not_split():
    leaving = Seq((STORE, If(i > 3, Break())))
    assert [] == plan_split(loop(leaving), [i < n]).varying
    inner = For(index_var("j"), as_expr(0), as_expr(4), 1, ForKind.SERIAL, Break())
    assert 1 == len(plan_split(loop(Seq((STORE, inner))), [i < n]).varying)


def test_long_bodies_and_other_steps_are_not_split():
    assert [] == plan_split(loop(Seq((STORE,) * 40)), [i < n]).varying
    assert [] == plan_split(loop(step=2), [i < n]).varying
