from tilelang.arith.affine import Linearizer, Sum
from tilelang.arith.combine import is_nonnegative, tightened, unfolded
from tilelang.dtypes import INT32
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Expr, Var, binary
from tilelang.ir.scalar import BinaryOp

i, j, n, m = (Var(name, INT32, index=True) for name in "ijnm")


class Knowing(Linearizer):
    """Knows only that some expressions are not negative."""

    def __init__(self, *facts: Expr) -> None:
        super().__init__()
        self.facts = [tightened(self.sum(fact)) for fact in facts]


def shown(target: Expr, *facts: Expr) -> bool:
    knowledge = Knowing(*facts)
    return is_nonnegative(knowledge.sum(target), knowledge)


def test_facts_are_added_up():
    assert shown(n - i, n - j, j - i)
    assert not shown(n - i, n - j, i - j)


def test_a_fact_may_be_needed_several_times_over():
    assert shown(3 * n - 3 * i, n - i)
    assert shown(n - i, 2 * n - 2 * i + 1)


def test_a_fact_holds_times_anything_that_is_not_negative():
    assert shown(m * m * n - m * m * i, n - i)
    assert not shown(m * n - m * i, n - i)


def test_quotients_are_bounded_by_their_definition():
    assert shown(n - n // 8 * 8)
    assert shown(n // 8 * 8 + 7 - n)
    assert not shown(n // 8 * 8 + 6 - n)


def test_a_quotient_is_multiplied_out():
    assert shown(m - 1 - n // 8, 8 * m - 1 - n)
    assert shown(n // 8 - m, n - 8 * m)
    assert not shown(m - 1 - n // 8, 8 * m - n)
    assert not shown(n // 8 - m, n - 8 * m + 1)


def test_a_minimum_is_either_of_its_operands():
    least = binary(BinaryOp.MIN, n, m)
    assert shown(least - i, n - i, m - i)
    assert shown(n - least)
    assert not shown(least - i, n - i)


def test_common_divisors_are_taken_out():
    tight = tightened(Linearizer().sum(4 * n - 6))
    assert ({(expr_key(n),): 1}, -2) == (tight.terms, tight.constant)
    assert Sum({}, 5).constant == tightened(Sum({}, 5)).constant


def test_a_fact_about_a_minimum_is_one_about_both_operands():
    knowledge = Knowing()
    fact = knowledge.sum(binary(BinaryOp.MIN, n, m) - i)
    assert [knowledge.sum(n - i).terms, knowledge.sum(m - i).terms] == [f.terms for f in unfolded(fact, knowledge)]
    assert [] == list(unfolded(knowledge.sum(i - binary(BinaryOp.MIN, n, m)), knowledge))
