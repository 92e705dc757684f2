"""A row per function that is one instruction of NVIDIA's GPUs: a call, and what it is in CUDA."""

import pytest
from function_rows import cuda_of

import tilelang.language as T
from tilelang.targets.nvidia.language.functions import FUNCTIONS


def commit_and_wait():
    T.warpgroup_commit_batch()
    T.warpgroup_wait()  # else ptxas adds this, which is warned of


ROWS = {
    "clock64": (lambda A, bar: T.clock64(), "= clock64();"),
    "globaltimer": (lambda A, bar: T.globaltimer(), "= tl_global_timer();"),
    "nanosleep": (lambda A, bar: T.nanosleep(100), "__nanosleep(100u);"),
    "prefetch_global": (
        lambda A, bar: T.prefetch_global(A[3], "L2::evict_last"),
        "tl_prefetch_L2_evict_last(&A[3], true);",
    ),
    "pdl_trigger": (lambda A, bar: T.pdl_trigger(), "tl_grid_dependency_launch();"),
    "pdl_sync": (lambda A, bar: T.pdl_sync(), "tl_grid_dependency_wait();"),
    "mbarrier_expect_tx": (lambda A, bar: T.mbarrier_expect_tx(bar[1], 64), "tl_mbarrier_expect_tx(&bar[1], 64);"),
    "mbarrier_arrive_expect_tx": (
        lambda A, bar: T.mbarrier_arrive_expect_tx(bar[0], 64),
        "tl_mbarrier_arrive_expect_tx(bar, 64);",
    ),
    "barrier_wait": (lambda A, bar: T.barrier_wait(bar[0], 1), "tl_mbarrier_wait(bar, 1);"),
    "mbarrier_wait_parity": (lambda A, bar: T.mbarrier_wait_parity(bar[0], 1), "tl_mbarrier_wait(bar, 1);"),
    "barrier_test_wait": (lambda A, bar: T.barrier_test_wait(bar[0], 1), "tl_mbarrier_test_wait(bar, 1);"),
    "cp_async_barrier_noinc": (lambda A, bar: T.cp_async_barrier_noinc(bar[0]), "tl_mbarrier_cp_async_arrive_noinc(bar);"),
    "ptx_cp_async_barrier": (
        lambda A, bar: T.ptx_cp_async_barrier(bar[0]),
        "tl_mbarrier_cp_async_arrive(bar);",
    ),
    "ptx_arrive_barrier": (lambda A, bar: T.ptx_arrive_barrier(bar[0]), "tl_mbarrier_arrive(bar);"),
    "ptx_arrive_barrier_expect_tx": (
        lambda A, bar: T.ptx_arrive_barrier_expect_tx(bar[0], 8),
        "tl_mbarrier_arrive_expect_tx(bar, 8);",
    ),
    "ptx_wait_barrier": (lambda A, bar: T.ptx_wait_barrier(bar[0]), "tl_mbarrier_wait(bar, 0);"),
    "ptx_fence_barrier_init": (lambda A, bar: T.ptx_fence_barrier_init(), "tl_fence_mbarrier_init();"),
    "ptx_commit_group": (lambda A, bar: T.ptx_commit_group(), "tl_cp_async_commit();"),
    "ptx_wait_group": (lambda A, bar: T.ptx_wait_group(1), "tl_cp_async_wait<1>();"),
    "block_rank_in_cluster": (lambda A, bar: T.block_rank_in_cluster(), "= tl_cluster_rank();"),
    "get_cluster_block_nums": (lambda A, bar: T.get_cluster_block_nums(), "= tl_cluster_size();"),
    "cluster_arrive": (lambda A, bar: T.cluster_arrive(), "tl_cluster_arrive();"),
    "cluster_arrive_relaxed": (lambda A, bar: T.cluster_arrive_relaxed(), "tl_cluster_arrive_relaxed();"),
    "cluster_wait": (lambda A, bar: T.cluster_wait(), "tl_cluster_wait();"),
    "ptx_arrive_cluster_barrier": (
        lambda A, bar: T.ptx_arrive_cluster_barrier(bar[0], 1),
        "tl_mbarrier_arrive_remote(bar, 1);",
    ),
    "tma_store_arrive": (lambda A, bar: T.tma_store_arrive(), "tl_tma_store_commit();"),
    "tma_store_wait": (lambda A, bar: T.tma_store_wait(2, read=False), "tl_tma_store_wait_2();"),
    "fence_proxy_async": (lambda A, bar: T.fence_proxy_async("global"), "tl_fence_proxy_async_global();"),
    "wait_wgmma": (lambda A, bar: T.wait_wgmma(1), "tl_wgmma_wait_1();"),
    "warpgroup_wait": (lambda A, bar: T.warpgroup_wait(), "tl_wgmma_wait_0();"),
    "warpgroup_arrive": (lambda A, bar: T.warpgroup_arrive(), "tl_wgmma_fence();"),
    "warpgroup_commit_batch": (lambda A, bar: commit_and_wait(), "tl_wgmma_commit();"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_is_its_instruction(name):
    call, text = ROWS[name]
    assert text in cuda_of(lambda A, tx, bar: call(A, bar), cluster_dims=2)
