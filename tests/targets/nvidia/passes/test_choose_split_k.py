"""The reduction of a tile is split where that was measured to be faster."""

import json

import pytest
from dequantized_gemm import dequantized
from examples_of import ROOT
from specialized import TARGET, gemm_kernel, launch_of

import tilelang.language as T
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.passes.choose_split_k import choose_cluster_splits, choose_workspace_splits
from tilelang.targets.target import Target

MEASURED = json.loads((ROOT / "benchmarks/results/split-k-nvidia-h200.json").read_text())["rows"]


def split_of(func, consumers=2, target=TARGET):
    return choose_cluster_splits(flatten_sequences(launch_of(func)), consumers, target.machine)


def parts_of(func, target=TARGET):
    return choose_workspace_splits(launch_of(func), target.machine)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: "x".join(map(str, row["shape"] + row["tile"][:2])))
def test_the_choice_is_near_the_best_that_was_measured_and_no_worse_than_whole_tiles(row):
    block_M, block_N, block_K, stages, threads = row["tile"]
    blocks = split_of(gemm_kernel(*row["shape"], block_M, block_N, block_K, stages), threads // 128)
    took = row["ms"][str(blocks)]
    assert took <= 1.01 * row["ms"]["1"]
    assert took <= 1.15 * min(row["ms"].values())


def test_blocks_that_do_not_run_at_once_split_nothing():
    assert 1 == split_of(gemm_kernel(1024, 2048, 16384))  # 128 tiles
    assert 2 == split_of(gemm_kernel(1024, 1024, 16384))  # 64


def test_other_machines_split_nothing():
    assert 1 == split_of(gemm_kernel(512, 512, 16384), target=Target("cuda", "sm_80"))


def test_sizes_that_are_not_known_split_nothing():
    assert 1 == split_of(gemm_kernel(T.dynamic("M"), 512, 16384))
    assert 1 == split_of(gemm_kernel(512, 512, T.dynamic("K")))


def test_results_that_only_one_block_could_store_split_nothing():
    assert 4 == split_of(gemm_kernel(512, 512, 16384, 128, 128))
    assert 1 == split_of(gemm_kernel(512, 120, 16384, 128, 24))


def test_what_threads_compute_in_a_step_counts_and_few_results_are_received_by_one_block():
    def split_of_whole(func):
        return launch_of(run_passes(func, BACKEND.passes, PassContext(CompileOptions(), TARGET))).plan.schedule.split_k

    assert 1 == split_of_whole(gemm_kernel(64, 64, 64 * 16, 64, 64, 64))
    assert 4 <= split_of_whole(dequantized(16, 64, steps=16))


def test_blocks_store_their_sums_where_clusters_do_not_run_at_once():
    assert 8 == parts_of(gemm_kernel(512, 512, 16384, 128, 128))
    assert 4 == parts_of(gemm_kernel(128, 4096, 14336, 128, 128))


def test_clusters_are_left_where_they_are_faster():
    assert 1 == parts_of(gemm_kernel(256, 4096, 4096, 128, 128))
    assert 2 == split_of(gemm_kernel(256, 4096, 4096, 128, 128))


def test_blocks_store_no_sums_where_whole_tiles_are_as_fast():
    assert 1 == parts_of(gemm_kernel(512, 512, 512, 64, 64))
    assert 1 == parts_of(gemm_kernel(2048, 2048, 2048, 128, 256))
    assert 1 == parts_of(gemm_kernel(512, 512, 16384), target=Target("cuda", "sm_80"))
    assert 1 == parts_of(gemm_kernel(T.dynamic("M"), 512, 16384))


def test_launches_in_clusters_stay_as_they_are():
    assert 1 == parts_of(gemm_kernel(512, 512, 16384, cluster=2))
