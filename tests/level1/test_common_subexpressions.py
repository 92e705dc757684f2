"""What an expression computes more than once is assigned to a variable."""

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Load, Var
from tilelang.language import exp, tanh
from tilelang.level1.common_subexpressions import hoist_common_subexpressions

X = Buffer("x", (Const(8, INT32),), FLOAT32, Scope.GLOBAL)
I = Var("i", INT32, index=True)


def x() -> Load:
    return Load(X, (I + 1,), FLOAT32)


def test_parts_come_before_what_they_are_parts_of() -> None:
    expr = exp(x() * 2.0) + exp(x() * 2.0) * tanh(x())
    bindings, rest = hoist_common_subexpressions(expr)
    assert ["x_value = x[i + 1]", "value = T.exp(x_value * 2.0)"] == [f"{b.var.name} = {b.value!r}" for b in bindings]
    assert "value + value * T.tanh(x_value)" == repr(rest)


def test_cheap_parts_and_single_uses_stay() -> None:
    a = Var("a", FLOAT32)
    assert [] == hoist_common_subexpressions((a + 1.0) * (a + 1.0) + x())[0]
