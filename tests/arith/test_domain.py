import itertools

import pytest

from tilelang.arith.domain import Domain, of_function
from tilelang.arith.interval import Interval, bounds
from tilelang.arith.prove import proves
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, const
from tilelang.ir.func import PrimFunc, ScalarParam, TensorParam
from tilelang.ir.stmt import Seq

i, n, m = (Var(name, INT32, index=True) for name in "inm")
A = Buffer("A", (n, n + m), INT32, Scope.GLOBAL)


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
