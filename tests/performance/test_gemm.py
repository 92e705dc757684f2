"""The estimates of tiled gemms are near what was measured, and order tiles as measurements do."""

import dataclasses
import json
import math
import statistics

import pytest
from examples_of import ROOT

from tilelang.performance.gemm import TiledGemm, gemm_seconds
from tilelang.targets.nvidia.machines import MACHINES

MEASURED = json.loads((ROOT / "benchmarks/results/gemm-tiles-nvidia-h200.json").read_text())["rows"]
H200 = MACHINES["sm_90a"]


def seconds(gemm):
    return gemm_seconds(gemm, H200, H200.rates)


def of_row(shape, row):
    block_m, block_n, block_k, multicast_a, multicast_b, cluster_splits, workspace_splits, _ = row
    return TiledGemm(
        *shape, block_m, block_n, block_k, multicast_a=multicast_a, multicast_b=multicast_b,
        cluster_splits=cluster_splits, workspace_splits=workspace_splits,
    )


def test_estimates_are_near_what_was_measured():
    errors = [math.log(seconds(of_row(each["shape"], row)) * 1e6 / row[-1]) for each in MEASURED for row in each["us"]]
    assert len(errors) > 700
    assert abs(statistics.mean(errors)) < 0.02
    assert statistics.mean(map(abs, errors)) < 0.06


@pytest.mark.parametrize("each", MEASURED, ids=lambda each: "x".join(map(str, each["shape"])))
def test_the_best_by_estimate_is_near_the_best_that_was_measured(each):
    best = min(each["us"], key=lambda row: seconds(of_row(each["shape"], row)))
    assert best[-1] <= 1.3 * min(row[-1] for row in each["us"])


def test_the_best_by_estimate_is_on_average_as_good_as_the_best_that_was_measured():
    shares = []
    for each in MEASURED:
        best = min(each["us"], key=lambda row: seconds(of_row(each["shape"], row)))
        shares.append(min(row[-1] for row in each["us"]) / best[-1])
    assert statistics.geometric_mean(shares) > 0.95


def test_sizes_of_the_grid():
    gemm = TiledGemm(300, 500, 1000, 128, 256, 64, workspace_splits=3)
    assert (3, 2) == gemm.tiles
    assert 18 == gemm.blocks
    assert 6 == gemm.steps
    assert (128 + 256) * 64 * 2 == gemm.loaded_bytes


def test_tiles_that_a_block_computes_one_after_another():
    gemm = TiledGemm(300, 500, 1000, 128, 64, 64, result_bytes=0)
    in_turn = dataclasses.replace(gemm, tiles_per_block=4)
    assert (24, 6) == (gemm.blocks, in_turn.blocks)
    assert (16, 64) == (gemm.steps, in_turn.steps)
    assert 2 * seconds(gemm) < seconds(in_turn) < 5 * seconds(gemm)


def test_few_stages_show_the_latency_of_memory():
    gemm = TiledGemm(128, 64, 8192, 64, 64, 64)
    two, many = (seconds(dataclasses.replace(gemm, stages=stages)) for stages in (2, 100))
    assert two > 1.5 * many
    assert many == seconds(gemm)


def test_sharing_a_tile_pays_where_tiles_are_few_and_sums_are_long():
    few = TiledGemm(512, 512, 16384, 128, 128, 64)
    assert seconds(dataclasses.replace(few, workspace_splits=8)) < 0.4 * seconds(few)
    assert seconds(dataclasses.replace(few, cluster_splits=4)) < 0.5 * seconds(few)
    many = TiledGemm(2048, 2048, 2048, 128, 256, 64)
    assert seconds(many) < seconds(dataclasses.replace(many, workspace_splits=2))


def test_few_rows_are_bound_by_memory():
    one, sixteen = (TiledGemm(m, 8192, 8192, 16, 64, 64) for m in (1, 16))
    assert seconds(one) == pytest.approx(seconds(sixteen), rel=0.05)
    assert seconds(one) > 8192 * 8192 * 2 / (H200.memory_bandwidth * H200.rates.memory_share)


def test_eight_bit_operands_take_half_the_time_of_the_matrix_units():
    wide = TiledGemm(8192, 8192, 8192, 128, 256, 64)
    narrow = dataclasses.replace(wide, block_k=128, operand_bytes=1)
    assert 0.45 < seconds(narrow) / seconds(wide) < 0.6


def test_long_products_are_limited_by_power():
    short, long = (TiledGemm(n, n, n, 128, 256, 64) for n in (2048, 16384))
    rate = [2 * gemm.m**3 / seconds(gemm) for gemm in (short, long)]
    assert rate[1] < H200.matrix_flops * 0.85
    assert rate[1] > rate[0]
