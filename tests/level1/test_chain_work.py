"""Tests for tilelang.level1.chain_work."""

from collections.abc import Mapping
from typing import Any

import level1_programs as graphs
import numpy as np
import pytest
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.level1.canonical_masks import with_canonical_masks
from tilelang.level1.chain_work import ChainWork, Steps
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.fused import FusedKernel
from tilelang.level1.graph import Graph
from tilelang.level1.placement import Tiling
from tilelang.level1.strength_reduction import with_reduced_strength
from tilelang.level1.tiles import extent_of
from tilelang.targets.target import parse_target

MACHINE = parse_target({"kind": "cuda", "arch": "sm_90a"}).machine


def kernel_of(graph: Graph) -> FusedKernel:
    (kernel,) = fused_kernels(graph)
    return with_reduced_strength(with_canonical_masks(kernel))


def work(kernel: FusedKernel) -> ChainWork:
    return ChainWork(kernel, {axis: extent_of(kernel, axis) for axis in kernel.extents})


def tiling(kernel: FusedKernel, blocks: Mapping[str, int], threads: int = 256) -> Tiling:
    named = {axis.name: axis for axis in kernel.extents}
    return Tiling({named[name]: size for name, size in blocks.items()}, threads, 2)


def cycles(graph: Graph, rows: int, keys: int, threads: int) -> float:
    kernel, rates = kernel_of(graph), MACHINE.rates
    assert rates is not None
    return work(kernel).block_cycles(tiling(kernel, {"i": rows, "j": keys}, threads), MACHINE, rates)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Steps(4, 0)),
        ({"causal": True}, Steps((1 + 2 + 3 + 4) / 4, 1)),
        ({"causal": True, "window": 128}, Steps((1 + 2 + 2 + 2) / 4, (1 + 2 + 2 + 2) / 4)),
    ],
)
def test_steps_that_masks_leave(options: dict[str, int], expected: Steps) -> None:
    kernel = kernel_of(graphs.attention((1, 2, 512, 512, 64), **options))
    assert expected == work(kernel).steps(tiling(kernel, {"i": 128, "j": 128}))


def test_the_last_step_has_a_mask_where_tiles_do_not_divide_the_axis() -> None:
    kernel = kernel_of(graphs.attention((1, 2, 512, 500, 64)))
    assert Steps(4, 1) == work(kernel).steps(tiling(kernel, {"i": 128, "j": 128}))


def test_masks_by_data_are_computed_in_all_steps() -> None:
    arrays = [np.zeros(shape, np.float16) for shape in ((256, 64), (512, 64), (512, 64))]

    def masked(q: Any, k: Any, v: Any, keep: Any) -> Any:
        scores = tnp.where(keep, tnp.matmul(q, k.T, dtype="float32"), -tnp.inf)
        return tnp.softmax(scores) @ v

    kernel = kernel_of(trace(masked, *arrays, np.zeros((256, 512), np.bool_)))
    row = next(iter(kernel.extents))
    (keys,) = kernel.streamed
    assert Steps(8, 8) == work(kernel).steps(Tiling({row: 128, keys: 64}, 256, 2))


def test_three_warp_groups_take_less_time_for_each_row_and_few_steps_relatively_more() -> None:
    long, short = (graphs.attention((1, 8, 4096, keys, 128)) for keys in (4096, 256))
    assert cycles(long, 192, 64, 384) / 192 < 0.92 * cycles(long, 128, 128, 256) / 128
    assert cycles(short, 128, 128, 256) > cycles(long, 128, 128, 256) / 16 * 1.2


def test_steps_look_for_the_largest_score_where_it_is_computed_from_products() -> None:
    def attention(capped: bool) -> Graph:
        def made(q: Any, k: Any, v: Any) -> Any:
            scores = tnp.matmul(q, k.T, dtype="float32")
            return tnp.softmax(scores + 1.0 if capped else scores) @ v

        return trace(made, *(np.zeros((4096, 128), np.float16) for _ in range(3)))

    few, many = [], []
    for capped in (False, True):
        kernel = kernel_of(attention(capped))
        row, (keys,) = next(iter(kernel.extents)), kernel.streamed
        for found, rows, size, threads in ((few, 128, 128, 256), (many, 192, 64, 384)):
            rates = MACHINE.rates
            assert rates is not None
            tiles = Tiling({row: rows, keys: size}, threads, 2)
            found.append(work(kernel).block_cycles(tiles, MACHINE, rates) / rows)
    added = few[1] - few[0]
    assert 0 < added < many[1] - many[0]


def test_wider_operands_take_longer() -> None:
    narrow, wide = (graphs.attention((1, 8, 4096, 4096, 64), dtype) for dtype in ("float16", "float32"))
    assert cycles(narrow, 128, 64, 256) < cycles(wide, 128, 64, 256)
