"""Tests for tilelang.level1.tile_work."""

import time

import level1_programs as graphs
import pytest

from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Combiner, Graph
from tilelang.level1.placement import Tiling
from tilelang.level1.tile_work import predicted_seconds, sorted_by_predicted_time
from tilelang.level1.tiles import extent_of
from tilelang.targets.target import parse_target

MACHINE = parse_target({"kind": "cuda", "arch": "sm_90a"}).machine


def seconds(graph: Graph, *tilings: tuple[dict[str, int], int, int]) -> list[float]:
    (kernel,) = fused_kernels(graph)
    named = {axis.name: axis for axis in kernel.extents}
    made = [Tiling({named[n]: size for n, size in blocks.items()}, threads, stages) for blocks, threads, stages in tilings]
    extents = {axis: extent_of(kernel, axis) for axis in kernel.extents}
    assert MACHINE.rates is not None
    return predicted_seconds(kernel, made, MACHINE, MACHINE.rates, extents)


def test_large_rows_take_the_time_of_memory() -> None:
    (found,) = seconds(graphs.softmax(65536, 4096), ({"i": 1}, 128, 2))
    least = 2 * 65536 * 4096 * 4 / MACHINE.memory_bandwidth
    assert least < found < 1.4 * least


def test_products_take_the_time_of_matrix_units() -> None:
    (found,) = seconds(graphs.matmul(8192, 8192, 8192), ({"i": 128, "j": 256, "k": 64}, 256, 4))
    assert 1.1e-3 < found < 3e-3


def sums(rows: int, columns: int) -> Graph:
    g = graphs.Builder()
    x = g.parameter("x", (rows, columns))
    return g.graph("sums", g.reduction("y", (rows,), (columns,), Combiner.SUM, lambda i, r: graphs.at(x, i, r)))


def test_few_long_rows_want_wide_steps() -> None:
    narrow, wide = seconds(sums(64, 1 << 20), ({"i": 1, "r": 512}, 128, 2), ({"i": 1, "r": 8192}, 512, 2))
    assert wide < narrow / 2


def test_only_a_clearly_faster_tiling_takes_the_place_of_the_first() -> None:
    (kernel,) = fused_kernels(sums(64, 1 << 20))
    row, column = kernel.extents
    slow, fast = Tiling({row: 1, column: 512}, 128, 2), Tiling({row: 1, column: 8192}, 512, 2)
    assert fast is sorted_by_predicted_time(kernel, [slow, fast], MACHINE)[0]
    same = Tiling(fast.blocks, fast.threads, 3)
    assert same is sorted_by_predicted_time(kernel, [same, fast], MACHINE)[0]


@pytest.mark.parametrize("name", ["cpu", {"kind": "cuda", "arch": "sm_80"}])
def test_machines_without_figures_keep_the_order(name: object) -> None:
    (kernel,) = fused_kernels(sums(64, 1 << 20))
    row, column = kernel.extents
    given = [Tiling({row: 1, column: 512}, 128, 2), Tiling({row: 1, column: 8192}, 512, 2)]
    assert given == sorted_by_predicted_time(kernel, given, parse_target(name).machine)  # type: ignore[arg-type]


def test_many_tilings_take_little_time() -> None:
    (kernel,) = fused_kernels(graphs.softmax(4096, 128000))
    row = next(iter(kernel.extents))
    tilings = [Tiling({row: 1 << n}, threads, 2) for n in range(8) for threads in (128, 256, 512)]
    sorted_by_predicted_time(kernel, tilings, MACHINE)
    start = time.process_time()
    sorted_by_predicted_time(kernel, tilings, MACHINE)
    assert time.process_time() - start < 0.05
