"""How kernels are divided."""

import level1_programs as graphs
import pytest

from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Graph
from tilelang.level1.tiles import choose_tiling
from tilelang.targets.target import parse_target


def blocks(graph: Graph, kind: str = "cuda") -> dict[str, int]:
    (kernel,) = fused_kernels(graph)
    return {axis.name: size for axis, size in choose_tiling(kernel, parse_target(kind)).blocks.items()}


def test_rows_are_held_whole_or_streamed() -> None:
    assert {"i"} == set(blocks(graphs.softmax(4096, 1000)))
    assert {"i", "j"} == set(blocks(graphs.softmax(4096, 128000)))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_products_are_tiled_along_rows_columns_and_sums(kind: str) -> None:
    assert {"i", "j", "k"} == set(blocks(graphs.matmul(4096, 4096, 4096), kind))
    assert {"i", "j"} == set(blocks(graphs.attention((2, 16, 4096, 4096, 128)), kind))


def test_tiles_are_no_larger_than_needed() -> None:
    assert {"i": 16, "j": 16, "k": 16} == blocks(graphs.matmul(3, 5, 7))
