"""Which index arithmetic is exact in 64 bits."""

import pytest

from tilelang.dtypes import INT32, INT64
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, binary, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, Store
from tilelang.sim.exact_indices import are_exact, exact_parts

I, J = (Var(name, INT32, index=True) for name in "ij")
WIDE = Var("wide", INT64)
ARRAY = Buffer("a", (const(8, INT32),), INT32, Scope.LOCAL)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (I * 1000 + J, True),
        (I * (1 << 40) * (1 << 20), False),
        (binary(BinaryOp.TRUNCDIV, I, J), True),
        (binary(BinaryOp.SHL, I, J), False),  # as large as it likes
        (select(I < J, I, J) - 1, True),
        (Load(ARRAY, (I,), INT32) + I, True),
        (WIDE + I, False),
    ],
)
def test_no_part_may_be_larger_than_64_bits_hold(expr, expected):
    assert expected == are_exact([(None, expr)], {I: 1000, J: 1000})


def test_what_is_known_of_an_expression_counts():
    product = I * J
    assert not are_exact([(None, product * (1 << 30))], {I: 1 << 20, J: 1 << 20})
    assert are_exact([(None, product * (1 << 30))], {product: 1 << 20})


def test_an_index_of_unknown_size_may_be_anything():
    assert not are_exact([(None, I + 1)], {})


def test_a_bound_variable_is_as_large_as_its_value():
    bound = Var("bound", INT32, index=True)
    assert are_exact([(bound, I * 8), (None, bound + 1)], {I: 8})
    assert not are_exact([(bound, I * (1 << 40)), (None, bound * (1 << 30))], {I: 8})


def test_the_parts_of_a_statement_are_its_indices_and_what_it_binds():
    ((var, index),) = exact_parts(Store(ARRAY, (I,), const(1, INT32)))
    assert var is None
    assert index is I
    bind = Bind(Var("bound", INT32, index=True), I + J)
    (free, operator), (var, value) = exact_parts(bind)
    assert free is None
    assert var is bind.var
    assert operator is bind.value is value
