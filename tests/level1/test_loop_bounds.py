"""Loops leave out steps that a mask makes empty."""

import level1_programs as graphs
import pytest

from tilelang.ir.print_expr import ExprPrinter
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Graph
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
