"""The order of elements, NaN included."""

import itertools

import pytest

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Binary, Var
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import walk_expr
from tilelang.lowering.library.sort_order import comes_after, follows, same

NAN = float("nan")
ASCENDING = [float("-inf"), -1.0, 0.0, 3.0, float("inf"), NAN]


def test_nan_is_the_greatest() -> None:
    a, b = Var("a", FLOAT32), Var("b", FLOAT32)
    for (m, x), (n, y) in itertools.product(enumerate(ASCENDING), repeat=2):
        assert (m > n, m == n) == (bool(evaluate(follows(a, b), {a: x, b: y})), bool(evaluate(same(a, b), {a: x, b: y})))


@pytest.mark.parametrize("descending", [False, True])
def test_equal_elements_are_told_apart_by_their_places(descending: bool) -> None:
    a, b, i, j = Var("a", INT32), Var("b", INT32), Var("i", INT32), Var("j", INT32)
    after = comes_after(a, b, (i, j), descending=descending)
    for x, y, m, n in itertools.product(range(3), repeat=4):
        expected = (-x, m) > (-y, n) if descending else (x, m) > (y, n)
        assert expected == bool(evaluate(after, {a: x, b: y, i: m, j: n}))


def test_comparisons_do_not_branch() -> None:
    a, b, i, j = Var("a", FLOAT32), Var("b", FLOAT32), Var("i", INT32), Var("j", INT32)
    for expr in (follows(a, b), same(a, b), comes_after(a, b, (i, j), descending=True)):
        found = {node.op for node in walk_expr(expr) if isinstance(node, Binary)}
        assert found.isdisjoint({BinaryOp.AND, BinaryOp.OR})
