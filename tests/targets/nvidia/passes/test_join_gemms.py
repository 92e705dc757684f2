"""Gemms of a loop that multiply the same tile become one, with the columns of all of them."""

import numpy as np
import pytest
from gpu import assert_simulates, lower_func, simulate_func
from harness import assert_same, run_reference_on_copies

import tilelang.language as T
from tilelang.ir.expr import int_const
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.backend import BACKEND, LOWERINGS
from tilelang.targets.nvidia.passes.join_gemms import join_gemms
from tilelang.targets.target import Target


def products(rows=128, widths=(64, 64), depth=64, along_k=False, what="", count=2, blocks=1, tall=1):
    """The products of one matrix by several, of which the first is scaled by the last."""
    columns, K, first = sum(widths), depth * count, widths[0]
    weights = [(width * blocks, K) if along_k else (K, width * blocks) for width in widths]
    places = [sum(widths[:number]) for number in range(len(widths))]

    @T.prim_func
    def main(
        X: T.Tensor((rows * tall, K), "float16"), W0: T.Tensor(weights[0], "float16"), W1: T.Tensor(weights[-1], "float16"),
        Y: T.Tensor((rows * tall, first * blocks), "float32"),
    ):
        with T.Kernel(blocks, tall, threads=128) as (bx, by):
            X_s = T.alloc_shared((rows, depth), "float16")
            tiles = [T.alloc_shared((w, depth) if along_k else (depth, w), "float16") for w in widths]
            sums = [T.alloc_fragment((rows, width), "float32") for width in widths]
            for each in sums:
                T.clear(each)
            if what == "cleared apart":
                T.fill(sums[0], 1)
            placed = {"order": [-1] * 5, "stage": [-1] * 5} if what == "placed" else {}
            for k in T.Pipelined(count, num_stages=2, **placed):
                T.copy(X[by * rows, k * depth], X_s)
                for W, width, tile in zip((W0, W1), widths, tiles, strict=True):
                    at = (bx * width, k * depth) if along_k else (k * depth, bx * width)
                    if not (what == "loaded between" and W is W1):
                        T.copy(W[at], tile)
                clear = k == 0 if what == "cleared by one gemm" else False
                T.gemm(X_s, tiles[0], sums[0], transpose_B=along_k, clear_accum=clear)
                if what == "loaded between":
                    T.copy(W1[k * depth, bx * widths[1]], tiles[1])
                if what == "used in the loop":
                    for i, j in T.Parallel(rows, widths[1]):
                        sums[1][i, j] = sums[1][i, j] + 1
                policy = T.GemmWarpPolicy.FullRow if what == "another policy" else T.GemmWarpPolicy.Square
                T.gemm(X_s, tiles[1], sums[1], transpose_B=along_k, policy=policy)
                if what == "tile read by threads":
                    for i, j in T.Parallel(rows, widths[1]):
                        sums[1][i, j] = sums[1][i, j] + tiles[1][0, j]
            if what == "reduced":
                total = T.alloc_fragment((rows,), "float32")
                T.reduce_sum(sums[1], total, dim=1)
                for i, j in T.Parallel(rows, first):
                    sums[0][i, j] = sums[0][i, j] * total[i]
            else:
                for i, j in T.Parallel(rows, first):
                    sums[0][i, j] = sums[0][i, j] * sums[1][i, j % widths[1]]
            T.copy(sums[0], Y[by * rows, bx * first])

    assert columns == places[-1] + widths[-1]
    return main


def gemms_after(func: PrimFunc, **pass_configs) -> list[Gemm]:
    """The gemms behind the pass."""
    return [s for s in walk(_after(func, **pass_configs).body) if isinstance(s, Gemm)]


def _after(func: PrimFunc, **pass_configs) -> PrimFunc:
    context = PassContext(CompileOptions.from_user(pass_configs), Target("cuda", "sm_90a"))
    own = join_gemms(LOWERINGS)
    for each in BACKEND.passes:
        func = each.run(func, context)
        if each.name == own.name:
            return func
    raise AssertionError


def columns_of(gemm: Gemm) -> int:
    return int_const(gemm.sizes[1])


@pytest.mark.parametrize("along_k", [False, True])
def test_one_gemm_has_the_columns_of_all(along_k):
    func = _after(products(along_k=along_k))
    (gemm,) = (s for s in walk(func.body) if isinstance(s, Gemm))
    assert (128, ((128, 64) if along_k else (64, 128))) == (columns_of(gemm), gemm.b.buffer.static_shape)
    starts = [s.dst.start for s in walk(func.body) if isinstance(s, Copy) and s.dst.buffer is gemm.b.buffer]
    assert [0, 64] == [int_const(start[0 if along_k else 1]) for start in starts]


@pytest.mark.parametrize(
    "what",
    ["cleared apart", "cleared by one gemm", "placed", "loaded between", "used in the loop", "another policy", "tile read by threads", "reduced"],
)
def test_gemms_whose_tiles_are_used_in_other_ways_stay_apart(what):
    assert [64, 64] == [columns_of(gemm) for gemm in gemms_after(products(what=what))]


def test_gemms_stay_apart_where_no_instruction_would_be_wider():
    assert [160, 160] == [columns_of(gemm) for gemm in gemms_after(products(64, (160, 160)))]


def test_gemms_stay_apart_where_warpgroups_would_divide_their_columns():
    assert [128, 128] == [columns_of(gemm) for gemm in gemms_after(products(64, (128, 128)), **{"tl.consumers": 2})]


def test_nothing_changes_where_warps_are_not_specialized():
    assert 2 == len(gemms_after(products(), **{"tl.disable_warp_specialized": True}))


def test_boxes_of_the_joined_tile_are_whole_in_each_part():
    func = _after(products(widths=(96, 96)))
    (launch,) = (s for s in walk(func.body) if isinstance(s, Launch))
    ((tile, layout),) = launch.hints.layouts
    assert ((64, 192), (6, 64, 32)) == (tile.static_shape, layout.output_shape)


def inputs_of(func: PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [param.buffer.static_shape for param in func.params]
    inputs = [rng.integers(-3, 4, shape).astype(np.float16) for shape in shapes[:3]]
    return [*inputs, np.full(shapes[3], np.nan, np.float32)]


@pytest.mark.slow(every=6)
@pytest.mark.parametrize(
    ("rows", "widths", "along_k", "blocks"),
    [(128, (64, 64), False, 1), (64, (96, 32), False, 1), (128, (48, 48), True, 2), (64, (32, 64), True, 1)],
)
def test_it_computes_the_same(rows, widths, along_k, blocks):
    func = products(rows, widths, along_k=along_k, blocks=blocks, count=3)
    assert [sum(widths)] == [columns_of(gemm) for gemm in gemms_after(func)]
    assert_simulates(func, *inputs_of(func), arch="sm_90a", seeds=(0,))


def test_blocks_of_a_cluster_load_parts_of_a_joined_tile():
    func = products(64, (96, 96), tall=2, count=3)
    options = CompileOptions.from_user({"tl.cluster": (1, 2, 1)})
    lowered = lower_func(func, "sm_90a", options)
    (launch,) = (s for s in walk(lowered.body) if isinstance(s, Launch))
    assert [(64, 192)] == [tile.static_shape for tile, _ in launch.plan.schedule.multicast]
    arguments = inputs_of(func)
    expected = run_reference_on_copies(func, arguments)
    actual = simulate_func(lowered, arguments, "sm_90a")
    assert_same(expected[-1], actual[-1], 1e-5, 1e-6)
