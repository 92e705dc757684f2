"""Comparisons in unrolled loops are with names that are computed outside of these loops."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import index_var

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Binary, Load, Var, as_expr, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, For, ForKind, If, Launch, Seq, Store
from tilelang.ir.visit import walk
from tilelang.passes.thread.hoist_comparisons import hoist_launch, split_comparison

I, J, K, M, ROW, THREAD = map(index_var, ("i", "j", "k", "M", "row", "thread"))
A = Buffer("A", (as_expr(4096),), INT32, Scope.GLOBAL)
STORE = Store(A, (I,), const(1, INT32))
ORDERS = (BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE)


def launch(*body):
    return Launch((index_var("bx"),), (as_expr(4),), (128, 1, 1), Seq(body), thread=THREAD)


def serial(*body, var=K):
    return For(var, as_expr(0), as_expr(8), 1, ForKind.SERIAL, Seq(body))


def unrolled(*body, var=I):
    return For(var, as_expr(0), as_expr(4), 1, ForKind.UNROLLED, Seq(body))


def kinds(node):
    return [type(s) for s in walk(node.body) if not isinstance(s, Seq)]


@given(
    st.sampled_from(ORDERS), st.tuples(*[st.integers(-3, 3)] * 4), st.integers(-9, 9),
)  # fmt: skip
def test_a_test_taken_apart_has_the_same_outcome(op, factors, literal):
    a, b, c, d = factors
    test = Binary(op, ROW + I * a + J * b + literal, M + I * c + J * d, as_expr(True).dtype)
    parts = split_comparison(test, frozenset((I, J)))
    assert (parts is None) == (a == c and b == d)
    for i, j, row, m in itertools.product(range(3), range(3), (0, 7), (0, 5, 9)):
        env = {I: i, J: j, ROW: row, M: m}
        if parts is not None:
            apart = Binary(op, *parts, test.dtype)
            assert bool(evaluate(test, env)) == bool(evaluate(apart, env))


def test_what_a_loop_would_compute_again_gets_a_name_before_it():
    node = hoist_launch(launch(serial(unrolled(If(ROW + THREAD + I * 32 < M, STORE)))))
    assert [Bind, For, For, If, Store] == kinds(node)
    bind, test = (next(s for s in walk(node.body) if isinstance(s, kind)) for kind in (Bind, If))
    assert test.condition.b is bind.var
    env = {ROW: 3, THREAD: 5, M: 50}
    assert 42 == int(evaluate(bind.value, env))


def test_what_is_another_in_every_iteration_has_a_name_in_the_loop():
    node = hoist_launch(launch(serial(unrolled(unrolled(If(ROW + I * 8 >= K * 64 + THREAD + J, STORE), var=J)))))
    assert [For, Bind, For, For, If, Store] == kinds(node)
    bind, test = (next(s for s in walk(node.body) if isinstance(s, kind)) for kind in (Bind, If))
    assert test.condition.b is bind.var
    env = {ROW: 30, THREAD: 5, K: 2}
    assert 103 == int(evaluate(bind.value, env))
    assert [1, -1, 8] == [int(evaluate(test.condition.a, {I: i, J: j})) for i, j in ((1, 7), (0, 1), (1, 0))]


def test_a_name_stands_where_its_variables_are_known():
    node = hoist_launch(launch(Bind(ROW, THREAD // 4), serial(unrolled(If(ROW + I * 32 < M, STORE)))))
    assert [Bind, Bind, For, For, If, Store] == kinds(node)


def test_equal_sides_share_a_name_outside_of_loops_too():
    tests = [unrolled(If(ROW + I * 32 < M, STORE)), serial(unrolled(If(ROW + I * 32 < M, STORE)))]
    node = hoist_launch(launch(*tests))
    assert 1 == kinds(node).count(Bind)
    assert all(not isinstance(s.condition.b, Binary) for s in walk(node.body) if isinstance(s, If))


def test_branches_that_define_the_same_variable_have_names_of_their_own():
    def part():
        return Seq((Bind(ROW, THREAD // 4), serial(unrolled(If(ROW + I * 32 < M, STORE)))))

    node = hoist_launch(launch(If(THREAD < 64, part(), part())))
    names = [s.var for s in walk(node.body) if isinstance(s, Bind) and s.var is not ROW]
    used = [s.condition.b for s in walk(node.body) if isinstance(s, If)][1:]
    assert [id(var) for var in names] == [id(var) for var in used if isinstance(var, Var)]
    assert 2 == len({id(var) for var in names})


@pytest.mark.parametrize(
    "body",
    [
        unrolled(If(ROW + I * 32 < M, STORE)),  # computed once
        serial(unrolled(If(I * 32 < M, STORE))),  # a name already
        serial(unrolled(If(I * I + ROW < M, STORE))),
        serial(unrolled(If(ROW + I < Load(A, (ROW,), INT32), STORE))),  # memory may change
        serial(If(ROW + THREAD < M, STORE)),  # nothing is unrolled
    ],
)
def test_other_tests_stay(body):
    node = launch(body)
    assert hoist_launch(node) is node
