from tilelang.arith.exact import exact, exactly
from tilelang.dtypes import FLOAT32, INT32, INT64, as_dtype
from tilelang.ir.expr import Var, cast, select, unary
from tilelang.ir.printer import to_text
from tilelang.ir.scalar import UnaryOp

N = Var("N", INT32, index=True)
X = Var("x", INT32)
B = Var("b", as_dtype("int8"))
F = Var("f", FLOAT32)


def test_index_arithmetic_stays_as_it_is() -> None:
    assert all(expr is exact(expr) for expr in (N, N * 3 + 1))
    assert all(expr is exactly(expr) for expr in (N < 3, F < 1.0))


def test_data_is_computed_with_in_64_bits() -> None:
    for expr, text in (
        (X, "T.int64(x)"),
        (X + 1, "T.int64(x) + 1"),
        (unary(UnaryOp.NEG, X), "-T.int64(x)"),
        (select(X > 3, X, B), "T.if_then_else(x > 3, T.int64(x), T.int64(T.int32(T.int64(b))))"),
    ):
        assert INT64 == exact(expr).dtype
        assert text == to_text(exact(expr))


def test_conditions_compare_integers_as_they_count() -> None:
    assert "T.int64(x) >= 0 and T.int64(x) < T.int64(N)" == to_text(exactly((X >= 0) & (X < N)))
    assert "not T.int64(b) == T.int64(x)" == to_text(exactly(unary(UnaryOp.NOT, cast(B, INT64) == cast(X, INT64))))
