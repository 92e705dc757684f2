"""The cycles of persistent blocks, by how consumers share their tiles."""

import dataclasses
import math

import pytest
from specialized import TABLE, context, gemm_kernel, launch_of

import tilelang.language as T
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.tile_intervals import block_cycles, ping_pong_refusal
from tilelang.targets.nvidia.schedule import Schedule

SHARED = Schedule(2, 6, persistent=True)
ALTERNATE = dataclasses.replace(SHARED, ping_pong=True)
LANES = 2 * 128 * 128 // 128  # cycles of all lanes for the epilogue of a tile of 128x128: it is read and written
ALONE = 3 * LANES  # of one warpgroup, which reaches a third of them


def asked(func):
    """What the questions take of a function."""
    launch, capabilities = flatten_sequences(launch_of(func)), target_capabilities(func, TABLE, context())
    return launch, capabilities.load_groups(launch).found, capabilities


def cycles(schedule, sizes, tile=(128, 128, 64), in_flight=None):
    return block_cycles(*asked(gemm_kernel(*sizes, *tile)), schedule, in_flight)


def test_warpgroups_that_share_tiles_compute_them_one_after_another():
    assert 32 * (16 * 512 + ALONE // 2) == cycles(SHARED, (8192, 8192, 1024))


def test_in_ping_pong_the_last_epilogue_alone_is_not_under_a_main_loop():
    assert 32 * 16 * 512 + ALONE == cycles(ALTERNATE, (8192, 8192, 1024))


def test_epilogues_that_take_longer_than_the_main_loop_bound_ping_pong():
    sizes, tile = (8192, 8192, 32), (128, 128, 32)
    assert 256 < ALONE
    assert 16 * (256 + ALONE) == cycles(ALTERNATE, sizes, tile)


def test_ping_pong_of_gemms_that_are_awaited_at_once_leaves_the_matrix_unit_idle():
    assert 32 * 16 * (512 + 195) + ALONE == cycles(ALTERNATE, (8192, 8192, 1024), in_flight=0)


def test_a_block_with_one_tile_has_no_epilogue_to_hide():
    assert cycles(SHARED, (1024, 1024, 1024)) < cycles(ALTERNATE, (1024, 1024, 1024))


def test_three_warpgroups_that_share_few_tiles_hide_more_than_ping_pong():
    shared, tile = dataclasses.replace(SHARED, consumers=3), (192, 128, 64)
    assert cycles(shared, (2048, 2048, 2048), tile) < cycles(ALTERNATE, (2048, 2048, 2048), tile)
    assert cycles(shared, (4096, 4096, 4096), tile) > cycles(ALTERNATE, (4096, 4096, 4096), tile)


def test_few_stages_delay_the_gemms_that_another_one_in_flight_holds():
    few = dataclasses.replace(ALTERNATE, stages=3)
    loads = math.ceil(0.45 * 950 + (128 * 64 + 64 * 128) * 2 / 90)  # cycles until a stage is full again
    assert 32 * 16 * loads + ALONE == cycles(few, (8192, 8192, 1024), in_flight=1)


def with_more(what):
    """A gemm whose tiles two warpgroups cannot compute each on its own, or can."""

    @T.prim_func
    def main(
        A: T.Tensor((4096, 2048), "float16"), bias: T.Tensor((128,), "float32"), C: T.Tensor((4096, 4096), "float16")
    ):
        with T.Kernel(32, 32, threads=256) as (bx, by):
            A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((128, 64), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            if what == "layouts":
                T.annotate_layout({C_l: T.Fragment((128, 128), forward_fn=lambda i, j: (i, j))})
            T.clear(C_l)
            for k in T.Pipelined(T.max(by, 1) if what == "counts" else 16, num_stages=4):
                T.copy(A[by * 128, k * 64], A_s)
                T.copy(A[bx * 128, k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            if what == "two loops":
                for k in T.Pipelined(16, num_stages=4):
                    T.copy(A[by * 128, k * 64], A_s)
                    T.copy(A[bx * 128, k * 64], B_s)
                    T.gemm(A_s, B_s, C_l, transpose_B=True)
            if what == "shared":
                held = T.alloc_shared((128,), "float32")
                for j in T.Parallel(128):
                    held[j] = bias[j] * 2.0
                for i, j in T.Parallel(128, 128):
                    C_l[i, j] += held[j]
            T.copy(C_l, C[by * 128, bx * 128])

    return main


@pytest.mark.parametrize(
    "what,reason",
    [
        ("", ""),
        ("two loops", "a tile is more than one loop of a gemm"),
        ("counts", "trip counts differ from tile to tile"),
        ("layouts", "layouts in the kernel divide tiles among 256 threads"),
        ("shared", "warpgroups exchange data through shared memory"),
    ],
)
def test_why_two_warpgroups_cannot_ping_pong(what, reason):
    assert reason == ping_pong_refusal(*asked(with_more(what)))


@pytest.mark.parametrize("loads_more", [False, True])
def test_tiles_that_only_run_time_tells_load_in_one_loop(loads_more):
    @T.prim_func
    def main(A: T.Tensor((4096, 1024), "float16"), rows: T.Tensor((32,), "int32"), C: T.Tensor((4096, 4096), "float16")):
        with T.Kernel(32, 32, threads=256) as (bx, by):
            A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((128, 64), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            row = rows[by]
            if row >= 0:
                if loads_more:
                    D_s = T.alloc_shared((128, 128), "float16")
                    T.copy(A[row, 0], D_s)
                    T.copy(D_s, C_l)
                else:
                    T.clear(C_l)
                for k in T.Pipelined(16, num_stages=2):
                    T.copy(A[row, k * 64], A_s)
                    T.copy(A[bx * 128, k * 64], B_s)
                    T.gemm(A_s, B_s, C_l, transpose_B=True)
                T.copy(C_l, C[row, bx * 128])

    refusal = "only run time tells which tiles there are, and a tile loads more than its loop"
    assert (refusal if loads_more else "") == ping_pong_refusal(*asked(main))


def test_a_tile_that_one_warpgroup_cannot_hold_is_refused():
    refusal = ping_pong_refusal(*asked(gemm_kernel(4096, 4096, 4096, 128, 256)))
    assert refusal.startswith("tiles take 256 registers of a thread")
