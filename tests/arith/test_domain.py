import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import index_conditions, index_expressions

from tilelang.arith.domain import Domain, facts_after, of_calls, of_function, visit_in_order
from tilelang.arith.interval import Interval, bounds
from tilelang.arith.prove import proves
from tilelang.arith.simplify import simplify
from tilelang.dtypes import FLOAT32, INT32, INT64
from tilelang.errors import NOWHERE
from tilelang.ir.assumption import assume
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Load, Var, cast, const
from tilelang.ir.func import PrimFunc, ScalarParam, TensorParam
from tilelang.ir.stmt import Assert, Bind, Seq
from tilelang.ir.visit import substitute

i, n, m = (Var(name, INT32, index=True) for name in "inm")
A = Buffer("A", (n, n + m), INT32, Scope.GLOBAL)


def test_extents_bound_each_variable_from_zero():
    domain = Domain().with_extents((i, n), (8, m))
    assert Interval(0, 7) == bounds(i, domain)
    assert proves(n >= 0, domain) and proves(n < m, domain)
    assert not proves(n < 8, domain)


def test_a_domain_never_changes():
    domain = Domain().with_range(i, 0, 7)
    domain.with_range(i, 2, 3)
    domain.assume(i == 5)
    assert Interval(0, 7) == bounds(i, domain)


def test_ranges_add_up():
    assert Interval(2, 7) == bounds(i, Domain().with_range(i, 0, 7).with_range(i, 2, None))


@pytest.mark.parametrize(("start", "stop", "step"), list(itertools.product([-3, 0, 5], [-4, 0, 6, 17], [1, 2, 3, -1, -4])))
def test_a_loop_says_which_values_its_variable_takes(start, stop, step):
    domain = Domain().with_loop(i, start, stop, step)
    values = list(range(start, stop, step))
    if values:
        assert Interval(min(values), max(values)) == bounds(i, domain)
        if abs(step) > 1:
            assert proves(i % abs(step) == start % abs(step), domain)


def test_a_loop_over_symbolic_ends_keeps_them():
    domain = Domain().with_loop(i, n, m)
    assert proves(i >= n, domain)
    assert proves(i < m, domain)


def test_conditions_and_values_that_load_are_forgotten():
    loaded = Load(A, (i, i), INT32)
    domain = Domain()
    assert domain.assume(loaded < 3) is domain
    assert domain.with_value(n, loaded) is domain
    assert domain.assume(loaded < 3, momentary=True) is not domain
    assert not proves(i < 9, domain.with_range(i, 0, loaded))


def test_values_that_are_no_index_arithmetic_are_forgotten():
    domain = Domain()
    assert domain.with_value(Var("f", FLOAT32), Var("g", FLOAT32)) is domain
    assert domain.with_value(n, Var("d", INT32)) is domain


def test_in_a_function_extents_are_not_negative():
    func = PrimFunc("f", (TensorParam(A), ScalarParam(Var("s", INT32, index=True))), Seq(()))
    domain = of_function(func)
    assert proves(n >= 0, domain)
    assert proves(n + m >= 0, domain)
    assert not proves(m >= 0, domain)
    assert proves(const(True, INT32), domain)


def test_the_host_lets_no_size_pass_that_its_dtype_does_not_hold():
    long = Var("long", INT64, index=True)
    func = PrimFunc("f", (TensorParam(A), ScalarParam(long)), Seq(()), symbols=(n, m))
    domain = of_calls(func)
    assert Interval(0, 2**31 - 1) == bounds(n, domain)
    assert Interval(-(2**31), 2**31 - 1) == bounds(m, domain)
    assert proves(n + m <= 2**31 - 1, domain)
    assert bounds(long, domain).high is None


def test_what_is_said_of_other_variables_alone_does_not_matter_to_an_expression():
    outer = Domain().with_range(n, 0, 7)
    loop = outer.with_loop(i, 0, 16, 4)
    bound = loop.with_value(m, i * 2)
    assert outer is bound.relevant(n + 1)
    assert loop is bound.relevant(n + i)
    assert bound is bound.relevant(m + 0 * n)
    assert bound is bound.relevant(n + m + i)


def test_facts_that_relate_variables_matter_to_all():
    outer = Domain().with_range(n, 0, 7)
    for related in (
        outer.with_loop(i, 0, n),  # in the body n is at least 1
        outer.assume(n < m),
        outer.with_range(i, 0, n).with_range(n, 1, 7),  # of n alone, but i is related to it
    ):
        assert related is related.relevant(n + 1)
        assert related is related.relevant(m + 1)


@given(st.data())
def test_answers_are_the_same_as_without_sharing_them_among_domains(data):
    names = [Var(name, INT32, index=True) for name in "abcd"]
    steps = data.draw(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(names), st.integers(0, 9)), max_size=7))
    conditions = [data.draw(index_conditions(names, 1)) for _ in steps]
    values = [data.draw(index_expressions(names, 1)) for _ in steps]

    def domain(shared):
        made, bound = Domain(), set()
        for (kind, var, number), condition, value in zip(steps, conditions, values, strict=True):
            match kind:
                case 0 | 1:
                    made = made.with_range(var, 0, number)
                case 2:
                    made = made.with_loop(var, number, number + 12, 4)
                case 3:
                    made = made.with_range(var, 0, names[number % 4])
                case 4:
                    made = made.assume(condition)
                case 5 if var not in bound:
                    bound.add(var)
                    made = made.with_value(var, substitute(value, dict.fromkeys(bound, const(number, INT32))))
            if not shared:
                made.sole_variable = None
        return made

    one, other = domain(True), domain(False)
    for _ in range(3):
        expr = data.draw(st.one_of(index_expressions(names, 3), index_conditions(names, 2)))
        assert bounds(expr, other) == bounds(expr, one)
        assert same_expr(simplify(expr, other), simplify(expr, one))


def test_a_statement_knows_the_names_bound_before_it():
    def stated(expr):
        return Assert(expr < 9, "")

    bound, known = Bind(n, i + 1), Domain().with_range(i, 0, 7)
    node = Seq((stated(n), bound, stated(n)))
    proven = []

    def visit(stmt, domain):
        if isinstance(stmt, Assert):
            proven.append(proves(stmt.condition, domain))
        return stmt

    assert node is visit_in_order(node, known, visit)
    assert [False, True] == proven
    changed = visit_in_order(node, known, lambda stmt, domain: stmt if stmt is bound else stated(m))
    assert bound is changed.body[1]
    assert changed.body[0] is not node.body[0]


def test_what_is_promised_holds_behind_the_promise() -> None:
    held = facts_after(assume((i >= 2) & (i < n), NOWHERE), Domain())
    assert proves(n > 2, held)
    data = Var("x", INT32)
    held = facts_after(assume((data >= 0) & (data < n), NOWHERE), Domain())
    assert proves(cast(data, INT64) < n, held) and proves(n >= 1, held)
    assert Interval(3, 3) == bounds(i, facts_after(Bind(i, const(3, INT32)), Domain()))


def test_conditions_on_memory_hold_until_they_are_forgotten() -> None:
    table, other = (Buffer(name, (n,), INT32, Scope.LOCAL) for name in ("table", "other"))
    load = Load(table, (i,), INT32)
    domain = Domain().with_range(i, 0, 7).assume(load > 3, momentary=True).assume(m > 5)
    domain = domain.assume(Load(other, (i,), INT32) > 3, momentary=True).with_value(n, m + 1)
    assert frozenset((table, other)) == domain.loads
    assert domain is domain.forget(lambda buffer: buffer.name == "none")
    kept = domain.forget(lambda buffer: buffer is table)
    assert frozenset((other,)) == kept.loads
    assert proves(load > 3, domain) and not proves(load > 3, kept)
    assert proves(Load(other, (i,), INT32) > 3, kept) and proves(n > 6, kept) and Interval(0, 7) == bounds(i, kept)
