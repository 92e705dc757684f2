from tilelang.arith.match import fill, integers, literals, match, truths
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Var, select

x, y = integers("x y")
(c,) = literals("c")
(p,) = truths("p")
i, j = Var("i", INT32, index=True), Var("j", INT32, index=True)
f = Var("f", FLOAT32)


def first(pattern, expr):
    return next(iter(match(pattern, expr)), None)


def test_wildcards_stand_for_operands():
    found = first(x + y * 2, i + j * 2)
    assert found[x] is i
    assert found[y] is j


def test_a_repeated_wildcard_stands_for_equal_structure():
    assert first(x - x, (i + 1) - (i + 1)) is not None
    assert first(x - x, i - j) is None


def test_operands_of_commutative_operators_are_tried_in_both_orders():
    assert first(x + 0, i * 1 + 0)[x].op.value == "*"
    assert first(x * 2 + y, j + i * 2)[x] is i
    assert first(x // 2, 2 // i) is None


def test_a_literal_wildcard_matches_only_literals():
    assert 7 == first(x + c, i + 7)[c].value
    assert first(x + c, i + j) is None


def test_floats_match_no_wildcard():
    assert first(x + y, f + f) is None
    assert first(x * 0, f * 0.0) is None


def test_choices_match_part_by_part():
    found = first(select(p, x, x), select(f < 1.0, i, i))
    assert found[x] is i
    assert first(select(p, x, x), select(f < 1.0, i, j)) is None


def test_filling_a_pattern_puts_the_bindings_back():
    expr = select(i < 3, i + j * 2, -j)
    pattern = select(p, x + y * 2, -y)
    assert same_expr(expr, fill(pattern, first(pattern, expr)))
