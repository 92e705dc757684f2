import pytest

import tilelang.language as T
from tilelang.dtypes import FLOAT32
from tilelang.ir.expr import Expr, Var
from tilelang.performance.arithmetic import instructions_of
from tilelang.targets.nvidia.machines import MACHINES

RATES = MACHINES["sm_90a"].rates
assert RATES is not None
X, Y = Var("x", FLOAT32), Var("y", FLOAT32)


@pytest.mark.parametrize(
    ("expr", "ordinary"),
    [(X + Y, 1), (X * Y + X, 1), (X * Y + X * X, 2), (T.max(X, Y), 1), (T.if_then_else(X > Y, X, Y), 2), (X, 0)],
)
def test_a_product_and_a_sum_are_one_instruction(expr: Expr, ordinary: int) -> None:
    assert ordinary == instructions_of(expr, RATES, fast_math=False).ordinary


def test_functions_have_special_instructions() -> None:
    slow, fast = (instructions_of(T.exp2(X), RATES, fast_math=fast) for fast in (False, True))
    assert 1 == slow.special == fast.special
    assert slow.ordinary > fast.ordinary == 0


def test_conversions_to_narrow_floats_make_two_at_once() -> None:
    assert 0.5 == instructions_of(T.float16(X), RATES, fast_math=False).conversions


def test_index_arithmetic_is_free() -> None:
    index = Var("i", T.int32, index=True)
    assert 0 == instructions_of(index * 4 + 1, RATES, fast_math=False).issued
