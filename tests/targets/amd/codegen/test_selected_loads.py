"""Branches of loads, else zeros, as loads that select."""

import pytest
from thread_kernels import buffer, index

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Const, Load, Select, as_expr, const
from tilelang.ir.stmt import For, ForKind, If, Seq, Store
from tilelang.ir.visit import walk
from tilelang.targets.amd.codegen.selected_loads import is_zero, selected_loads

A, TILE = buffer("A", (64,), "int32"), buffer("tile", (8,), "int32", Scope.LOCAL)
K = index("k")
EXISTS = K < 3


def unrolled(value, *, count=8, target=TILE, kind=ForKind.UNROLLED):
    """Stores of a value of the loop variable to registers."""
    v = index("v")
    return For(v, as_expr(0), as_expr(count), 1, kind, Store(target, (v,), value(v)))


def load(v):
    return Load(A, (K * 8 + v,), INT32)


def zero(v):
    return const(0, INT32)


def selected(branch, selects=lambda load: True):
    return selected_loads(branch, selects)


def test_loads_select_by_the_condition_of_their_branch():
    made = selected(If(EXISTS, Seq((unrolled(load),)), unrolled(zero)))
    (store,) = (s for s in walk(made) if isinstance(s, Store))
    assert isinstance(store.value, Select)
    assert expr_key(EXISTS) == expr_key(store.value.condition)
    assert isinstance(store.value.a, Load)
    assert is_zero(store.value.b)


def test_conditions_of_the_loads_themselves_hold_too():
    made = selected(If(EXISTS, unrolled(lambda v: Select(v < 5, load(v), zero(v), INT32)), unrolled(zero)))
    (store,) = (s for s in walk(made) if isinstance(s, Store))
    assert "k < 3 and v < 5" == str(store.value.condition)
    assert isinstance(store.value.a, Load)


@pytest.mark.parametrize(
    ("then", "zeros"),
    [
        (unrolled(load), None),  # which leaves what was there
        (unrolled(load), unrolled(zero, count=4)),
        (unrolled(load, count=4), unrolled(zero)),
        (unrolled(load), unrolled(lambda v: const(1, INT32))),
        (unrolled(lambda v: load(v) + 1), unrolled(zero)),
        (unrolled(lambda v: Select(v < 5, load(v), const(1, INT32), INT32)), unrolled(zero)),
        (unrolled(load, target=buffer("shared", (8,), "int32", Scope.SHARED)), unrolled(zero)),
        (unrolled(load, kind=ForKind.SERIAL), unrolled(zero)),
        (unrolled(load), unrolled(zero, target=buffer("other", (8,), "int32", Scope.LOCAL))),
        (Store(TILE, (K,), load(K)), Store(TILE, (K,), zero(K))),  # registers that are not known
    ],
)
def test_other_branches_stay(then, zeros):
    assert selected(If(EXISTS, then, zeros)) is None


def test_loads_that_would_need_branches_of_their_own_stay_in_one():
    branch = If(EXISTS, unrolled(load), unrolled(zero))
    assert selected(branch, lambda load: load.buffer is not A) is None


def test_zeros_are_those_whose_bits_are():
    assert is_zero(Const(0.0, A.dtype))
    assert not is_zero(Const(-0.0, A.dtype))
    assert not is_zero(K)
