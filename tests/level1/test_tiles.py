"""How kernels are divided."""

from typing import Any

import level1_programs as graphs
import numpy as np
import pytest
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.expr import Var
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.jit.program import lowered
from tilelang.level1.canonical_masks import with_canonical_masks
from tilelang.level1.execution import program_of
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Combiner, Graph, element
from tilelang.level1.lower import lower
from tilelang.level1.placement import Tiling
from tilelang.level1.split import split
from tilelang.level1.strength_reduction import with_reduced_strength
from tilelang.level1.tiles import blocks_of, choose_tiling, split_count, tiled_gemm, tilings_of
from tilelang.options import CompileOptions
from tilelang.targets.target import Target, parse_target

H200 = parse_target({"kind": "cuda", "arch": "sm_90a"})


def tiling(graph: Graph, target: Target = H200) -> Tiling:
    (kernel,) = fused_kernels(graph)
    return choose_tiling(with_reduced_strength(with_canonical_masks(kernel)), target)


def blocks(graph: Graph, target: Target = H200) -> dict[str, int]:
    return {axis.name: size for axis, size in tiling(graph, target).blocks.items()}


def test_rows_are_held_whole_or_streamed() -> None:
    assert {"i"} == set(blocks(graphs.softmax(4096, 1000)))
    assert {"i": 1, "j": 4096} == blocks(graphs.softmax(4096, 128000))


def test_columns_that_are_reduced_are_read_along_rows() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (65536, 256))
    y = g.reduction("y", (256,), (65536,), Combiner.SUM, lambda j, r: graphs.at(x, r, j))
    assert {"i": 32, "r": 256} == blocks(g.graph("columns", y))
    assert {"i": 128, "r": 32} == blocks(g.graph("columns", y), parse_target("cpu"))


def test_rows_of_unequal_length_are_not_held_whole() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (3, 300))
    graph = g.graph("f", g.reduction("y", (), (3, 300), Combiner.SUM, lambda i, j: graphs.at(x, i, j)))
    (kernel,) = fused_kernels(graph)
    made = split(graph, kernel, 2)
    first, second = fused_kernels(made.graph, made.partial)
    assert ["s"] == [axis.name for axis in choose_tiling(first, H200).blocks]
    assert [] == list(choose_tiling(second, H200).blocks)


def test_a_product_has_the_tile_of_the_cost_model() -> None:
    large, long = graphs.matmul(4096, 4096, 4096), graphs.matmul(512, 512, 16384)
    assert ({"i": 128, "j": 256, "k": 64}, 256) == (blocks(large), tiling(large).threads)
    assert {"i": 128, "j": 128, "k": 64} == blocks(long)
    assert {"tl.split": 8} == tiling(graphs.matmul(128, 128, 16384)).pass_configs  # 10.0 us; the next one takes 10.4
    assert {"tl.workspace_split": 8} == tiling(long).pass_configs


@pytest.mark.parametrize(
    ("d", "expected"),
    [(64, {"i": 192, "j": 128}), (96, {"i": 192, "j": 64}), (128, {"i": 192, "j": 64}), (192, {"i": 128, "j": 64}),
     (256, {"i": 128, "j": 64})],
)
def test_tiles_of_attention_stay_in_registers(d: int, expected: dict[str, int]) -> None:
    assert expected == blocks(graphs.attention((8, 32, 2048, 2048, d)))


def test_three_warp_groups_share_a_tile_only_where_registers_suffice() -> None:
    shape = (8, 32, 2048, 2048, 64)
    assert 384 == tiling(graphs.attention(shape)).threads
    assert 256 == tiling(graphs.attention(shape), parse_target({"kind": "cuda", "arch": "sm_80"})).threads
    g = graphs.Builder()
    points, centers, offsets = g.parameter("p", (100000, 128)), g.parameter("c", (1024, 128)), g.parameter("o", (1024,))
    product = g.reduction("s", (100000, 1024), (128,), Combiner.SUM,
                          lambda i, j, k: graphs.at(points, i, k) * graphs.at(centers, j, k))  # fmt: skip
    nearest = g.reduction("n", (100000,), (1024,), Combiner.ARGMIN,
                          lambda i, j: graphs.at(offsets, j) - graphs.at(product, i, j))  # fmt: skip
    assert 256 == tiling(g.graph("nearest", nearest)).threads


@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "gfx942"])
def test_rows_that_are_sorted_fit_in_shared_memory_beside_operands(arch: str) -> None:
    target = parse_target({"kind": "hip" if arch.startswith("gfx") else "cuda", "arch": arch})
    arrays = [np.zeros(shape, np.float16) for shape in ((512, 1024), (1024, 64))]
    graph = trace(lambda tokens, gate: tnp.topk(tnp.softmax(tnp.matmul(tokens, gate, dtype="float32")), 8), *arrays)
    made = lower(graph, target)
    program = lowered(program_of(made.text, made.entry), target, CompileOptions.from_user(None, None))
    (launch,) = (stmt for stmt in walk(program.body) if isinstance(stmt, Launch))
    assert 0 < launch.plan.shared_bytes <= target.machine.shared_bytes


def test_few_rows_of_attention_are_divided_further() -> None:
    assert 64 == blocks(graphs.attention((1, 8, 1024, 4096, 64)))["i"]


@pytest.mark.parametrize(
    ("shape", "causal", "expected"),
    [((4, 32, 4096, 4096, 128), True, 192), ((1, 16, 2048, 2048, 128), True, 128), ((16, 32, 1024, 1024, 128), True, 128)],
)
def test_three_warp_groups_share_tiles_where_these_are_many_and_long(
    shape: tuple[int, int, int, int, int], causal: bool, expected: int
) -> None:
    assert expected == blocks(graphs.attention(shape, causal=causal))["i"]


def test_tiles_are_no_larger_than_needed() -> None:
    assert {"i": 16, "k": 16} == {k: v for k, v in blocks(graphs.matmul(3, 5, 7)).items() if k != "j"}


def test_products_are_split_where_that_is_faster_by_estimate() -> None:
    (square,), (long,) = (fused_kernels(graphs.matmul(*sizes)) for sizes in ((512, 512, 512), (16, 256, 16384)))
    assert 1 == split_count(square, H200)
    assert 4 < split_count(long, H200) <= 33


def test_blocks_of_a_grid() -> None:
    (kernel,) = fused_kernels(graphs.attention((2, 16, 1000, 4096, 64)))
    axis = {each.name: each for each in kernel.extents}
    assert 2 * 16 * 8 == blocks_of(kernel, Tiling({axis["i"]: 128}, 128, 2))


def test_a_cpu_computes_no_rows_and_columns_that_are_not_there_and_long_steps() -> None:
    cpu = parse_target("cpu")
    assert {"i": 16, "j": 64, "k": 128} == blocks(graphs.matmul(16, 1024, 1024, "float32"), cpu)
    assert 32 == blocks(graphs.matmul(512, 20, 256, "float32"), cpu)["j"]
    assert 16 == blocks(graphs.matmul(512, 3, 256, "float32"), cpu)["j"]
    assert 80 == blocks(graphs.matmul(128, 128, 70, "float32"), cpu)["k"]


def test_rows_are_long_only_where_the_largest_array_has_neighbors_along_them() -> None:
    g = graphs.Builder()
    x, weights = g.parameter("x", (64, 128, 128)), g.parameter("weights", (64, 128))
    y = g.reduction(
        "y", (128, 128), (64,), Combiner.SUM, lambda i, j, p: graphs.at(x, p, i, j) * graphs.at(weights, p, i)
    )
    z = g.reduction("z", (128,), (64,), Combiner.SUM, lambda i, p: graphs.at(weights, p, i))
    joined = g.map("joined", (128, 128), lambda i, j: graphs.at(y, i, j) / graphs.at(z, i))
    assert {"i": 1} == blocks(g.graph("join", joined))


@pytest.mark.parametrize("d", [256, 320, 384, 512])
def test_operands_of_chains_fit_in_shared_memory(d: int) -> None:
    found = tiling(graphs.attention((1, 1, 16384, 16384, d)))
    tile = d * 2  # bytes of a row of an operand
    rows, keys = (found.blocks[axis] for axis in found.blocks)
    assert (rows + 2 * keys * found.stages) * tile <= H200.machine.shared_bytes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(40, 50, 70), (128, 128, 128), (2048, 2048, 2048)])
def test_operands_of_wide_products_fit_in_shared_memory(shape: tuple[int, int, int], dtype: str) -> None:
    g = graphs.Builder()
    m, n, k = shape
    a, b = g.parameter("a", (m, k), dtype), g.parameter("b", (k, n), dtype)
    y = g.reduction(
        "y", (m, n), (k,), Combiner.SUM, lambda i, j, r: element(a, (i, r)) * element(b, (r, j)), reduced="k"
    )
    found = tiling(g.graph("f", y))
    rows, columns, depth = (found.blocks[axis] for axis in found.blocks)
    held = (rows + columns) * depth * as_dtype(dtype).storage_bytes * found.stages
    assert H200.machine.shared_bytes // 8 < held <= H200.machine.shared_bytes


def test_chains_of_wide_operands_count_those_that_threads_compute() -> None:
    for arch in ("sm_80", "sm_89", "sm_90a"):
        target = parse_target({"kind": "cuda", "arch": arch})
        for d in (64, 128, 256):
            found = tiling(graphs.attention((1, 1, 512, 512, d), "float32"), target)
            rows, keys = (found.blocks[axis] for axis in found.blocks)
            held = 4 * (rows * d + 2 * keys * d * found.stages + rows * keys)
            assert held <= target.machine.shared_bytes


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("float32", 4)])
def test_operands_have_the_bytes_that_lie_in_shared_memory_though_their_sums_are_wider(dtype: str, size: int) -> None:
    (kernel,) = fused_kernels(graphs.matmul(256, 256, 4096, dtype))
    product = tiled_gemm(kernel, choose_tiling(kernel, H200))
    assert product is not None
    assert size == product.operand_bytes


@pytest.mark.parametrize(
    ("rows", "columns", "clusters"),
    [(4096, 4096, {(1, 2), (2, 1)}), ("m", 4096, {(2, 1)}), (4096, "n", {(1, 2)}), ("m", 100, set()), ("m", "n", set())],
)
def test_tiles_of_unknown_numbers_form_no_clusters(rows: int | str, columns: int | str, clusters: set[Any]) -> None:
    m, n = (Var(size, INT32, index=True) if isinstance(size, str) else size for size in (rows, columns))
    (kernel,) = fused_kernels(graphs.matmul(m, n, 4096))
    options = [tiling.pass_configs for tiling in tilings_of(kernel, H200)]
    assert clusters == {each["tl.cluster"] for each in options if "tl.cluster" in each}
