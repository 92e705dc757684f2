"""Which reductions are matrix products, and of what."""

import level1_programs as graphs
import pytest

from tilelang.dtypes import as_dtype
from tilelang.ir.expr import Expr, cast
from tilelang.level1.contraction import Contraction, contraction
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Combiner, element


def product_of(body: object, shape: tuple[int, ...] = (4, 5, 6)) -> Contraction | None:
    g = graphs.Builder()
    a, b, w = g.parameter("a", (4, 5, 7)), g.parameter("b", (4, 7, 6)), g.parameter("w", (4, 7))

    def element(i: Expr, j: Expr, k: Expr, r: Expr) -> Expr:
        return body(graphs.at(a, i, j, r), graphs.at(b, i, r, k), graphs.at(w, i, r))  # type: ignore[operator]

    (kernel,) = fused_kernels(g.graph("f", g.reduction("y", shape, (7,), Combiner.SUM, element)))
    return contraction(kernel.reductions[0])


def test_operands_rows_columns_and_batch() -> None:
    found = product_of(lambda a, b, w: b * a)
    assert found is not None
    assert ("a[i, j, r]", "b[i, r, k]", None) == (repr(found.a), repr(found.b), found.scale)
    assert ("j", "k", "i") == tuple("".join(axis.name for axis in axes) for axes in (found.rows, found.columns, found.batch))


def test_further_factors_join_an_operand() -> None:
    found = product_of(lambda a, b, w: a * w * (b * 2.0))
    assert found is not None and found.scale is not None
    assert ("a[i, j, r] * w[i, r]", "b[i, r, k]", "2.0") == (repr(found.a), repr(found.b), repr(found.scale))


@pytest.mark.parametrize("body", [lambda a, b, w: a + b, lambda a, b, w: a * w, lambda a, b, w: (a - b) * w])
def test_other_sums_are_none(body: object) -> None:
    assert product_of(body) is None


@pytest.mark.parametrize(("dtype", "is_product"), [("int32", True), ("int64", False)])
def test_sums_of_integers_are_products_where_a_gemm_has_them(dtype: str, is_product: bool) -> None:
    g = graphs.Builder()
    a, b = g.parameter("a", (4, 7), "int8"), g.parameter("b", (7, 6), "int8")

    def body(i: Expr, j: Expr, r: Expr) -> Expr:
        return cast(element(a, (i, r)), as_dtype(dtype)) * cast(element(b, (r, j)), as_dtype(dtype))

    (kernel,) = fused_kernels(g.graph("f", g.reduction("y", (4, 6), (7,), Combiner.SUM, body)))
    assert is_product == (contraction(kernel.reductions[0]) is not None)
