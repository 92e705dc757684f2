"""Index arithmetic as Python: exact, whatever the operands."""

import random

import pytest
from programs import index_var

from tilelang.codegen.host_expr import python_text
from tilelang.dtypes import FLOAT32, INT64
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Cast, Expr, Load, as_expr, binary, select
from tilelang.ir.scalar import BinaryOp

M, N = index_var("M"), index_var("N")
OPERATORS = (
    *(BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX, BinaryOp.FLOORDIV, BinaryOp.FLOORMOD),
    *(BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD, BinaryOp.BITAND, BinaryOp.BITOR, BinaryOp.BITXOR),
)


def draw(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rng.choice((M, N, as_expr(rng.randint(-9, 9)), as_expr(2**40)))
    if rng.random() < 0.2:
        test = binary(rng.choice((BinaryOp.AND, BinaryOp.OR)), draw(rng, 0) < draw(rng, 0), ~(draw(rng, 0) == 1))
        return select(test, draw(rng, depth - 1), draw(rng, depth - 1))
    if rng.random() < 0.1:
        return -draw(rng, depth - 1)
    return binary(rng.choice(OPERATORS), draw(rng, depth - 1), draw(rng, depth - 1))


def test_the_text_has_the_value_of_the_expression():
    rng = random.Random(0)
    for _ in range(200):
        expr = draw(rng, 3)
        text = python_text(expr)
        code = compile(text, "grid", "eval")
        for _ in range(20):
            m, n = rng.randint(-20, 20), rng.choice((0, 1, -1, 7, 64, -64))
            assert evaluate(expr, {M: m, N: n}) == eval(code, {"M": m, "N": n}), (text, m, n)


def test_a_ceiling_reads_like_python():
    assert "(-((-M) // 128))" == python_text(-(-M // 128))
    assert "M" == python_text(Cast(M, INT64))


def test_what_the_host_cannot_know_is_a_bug():
    buffer = Buffer("A", (M,), FLOAT32, Scope.GLOBAL)
    with pytest.raises(CompilerBug, match="the host cannot compute a Load"):
        python_text(Load(buffer, (N,), FLOAT32))
