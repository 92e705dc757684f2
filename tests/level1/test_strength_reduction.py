"""Strength reduction keeps values."""

import level1_programs as graphs
import pytest

import tilelang.language as T
from tilelang.ir.expr import Expr
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Combiner
from tilelang.level1.strength_reduction import with_reduced_strength


def shown(body: Expr, dtype: str = "float32") -> str:
    g = graphs.Builder()
    x, s = g.parameter("x", (9, 20), dtype), g.parameter("s", (9,), dtype)
    y = g.map("y", (9, 20), lambda i, j: body(graphs.element(x, (i, j)), graphs.element(s, (i,))))
    (kernel,) = fused_kernels(g.graph("f", y))
    return repr(with_reduced_strength(kernel).outputs[0].body)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda x, s: x / 11.0, "x[i, j] * 0.09090909"),
        (lambda x, s: x / 8.0 / 4.0, "x[i, j] * 0.03125"),
        (lambda x, s: x / s, "x[i, j] * (1.0 / s[i])"),
        (lambda x, s: s / x, "s[i] / x[i, j]"),
        (lambda x, s: 1.0 / x, "1.0 / x[i, j]"),
        (lambda x, s: x / 1e-40, "x[i, j] / 1e-40"),
        (lambda x, s: T.exp(x - s), "T.exp(x[i, j] - s[i])"),
    ],
)
def test_divisions(body: Expr, text: str) -> None:
    assert text == shown(body)


def test_wider_floats_are_divided() -> None:
    assert "x[i, j] / 11.0" == shown(lambda x, s: x / 11.0, "float64")


def test_differences_from_a_maximum_are_exponents_of_2() -> None:
    (kernel,) = fused_kernels(graphs.softmax(5, 33))
    cheaper = with_reduced_strength(kernel)
    assert "T.__exp2((x[i, j] - largest[i]) * 1.442695)" == repr(cheaper.reductions[1].body)
    g = graphs.Builder()
    x = g.parameter("x", (5, 33))
    least = g.reduction("least", (5,), (33,), Combiner.MIN, lambda i, r: graphs.at(x, i, r))
    y = g.map("y", (5, 33), lambda i, j: T.exp(graphs.at(x, i, j) - graphs.at(least, i)))
    (kernel,) = fused_kernels(g.graph("f", y))
    assert "T.exp(x[i, j] - least[i])" == repr(with_reduced_strength(kernel).outputs[0].body)
