"""Loops leave out steps that a mask makes empty."""

import level1_programs as graphs
import pytest

from tilelang.ir.expr import Expr, select
from tilelang.ir.print_expr import ExprPrinter
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Combiner, Graph, element
from tilelang.level1.loop_bounds import ReducedBody, loop_range
from tilelang.level1.placement import Tiling, place_axes
from tilelang.level1.tile_values import TileValues


def range_of(graph: Graph, *, neutral: float | None = None) -> tuple[str, str]:
    (kernel,) = fused_kernels(graph)
    axis = {each.name: each for each in kernel.extents}
    values = TileValues(place_axes(kernel, Tiling({axis["i"]: 16, axis["j"]: 32}, 128, 2)))
    combined = [
        ReducedBody(r.body, float(r.combiner.neutral(r.body.dtype)) if neutral is None else neutral)
        for r in kernel.accumulated
    ]
    return loop_range(axis["j"], combined, values, "whole", ExprPrinter())


SHAPE = (2, 3, 40, 72, 32)


@pytest.mark.parametrize(
    ("causal", "window", "expected"),
    [
        (False, 0, ("", "whole")),
        (True, 0, ("", "T.ceildiv(T.min(72, (bx + 1) * block_i), block_j)")),
        (False, 10, ("T.max(0, bx * block_i - 9) // block_j", "whole")),
        (True, 10, ("T.max(0, bx * block_i - 9) // block_j", "T.ceildiv(T.min(72, (bx + 1) * block_i), block_j)")),
    ],
)
def test_masks_of_attention(causal: bool, window: int, expected: tuple[str, str]) -> None:
    assert expected == range_of(graphs.attention(SHAPE, causal=causal, window=window))


def test_masked_values_that_count_bound_nothing() -> None:
    assert ("", "whole") == range_of(graphs.attention(SHAPE, causal=True), neutral=1.0)


@pytest.mark.parametrize(
    ("dtype", "condition", "end"),
    [
        ("int32", lambda j, p, n: j < n, "T.max(T.min(n[b], 72), 0)"),
        ("int32", lambda j, p, n: n >= j, "T.max(T.min(n[b], 71), -1) + 1"),
        ("int64", lambda j, p, n: j < n, "T.int32(T.max(T.min(n[b], 72), 0))"),
        ("int32", lambda j, p, n: p * 72 + j < n, "T.max(T.min(n[b], p * 72 + 72), p * 72) - p * 72"),
        ("int32", lambda j, p, n: j - p < n, ""), ("int32", lambda j, p, n: j > n, ""), ("float32", lambda j, p, n: j < n, ""),
    ],
)  # fmt: skip
def test_bounds_in_memory(dtype: str, condition: object, end: str) -> None:
    """Keys of which there are fewer in some sequences; they may be split into parts, and be none or any number."""
    g = graphs.Builder()
    x, n = g.parameter("x", (5, 4, 40, 72)), g.parameter("n", (4,), dtype)

    def body(p: Expr, b: Expr, i: Expr, j: Expr) -> Expr:
        return select(condition(j, p, element(n, (b,))), element(x, (p, b, i, j)), 0.0)  # type: ignore[operator]

    found = range_of(g.graph("sums", g.reduction("y", (5, 4, 40), (72,), Combiner.SUM, body, "pbi", "j")))
    assert ("", f"T.ceildiv(T.min(72, {end}), block_j)" if end else "whole") == found


def test_a_bound_of_each_row_is_none_of_a_block() -> None:
    g = graphs.Builder()
    x, n = g.parameter("x", (40, 72)), g.parameter("n", (40,), "int32")
    y = g.reduction(
        "y", (40,), (72,), Combiner.SUM, lambda i, j: select(j < element(n, (i,)), element(x, (i, j)), 0.0), "i", "j"
    )
    assert ("", "whole") == range_of(g.graph("sums", y))
