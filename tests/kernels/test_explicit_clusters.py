"""Explicit clusters on Hopper: distributed shared memory, remote barriers, multicast loads."""

import numpy as np
from hopper import integers, results

import tilelang.language as T


@T.prim_func
def exchange(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
    with T.Kernel(4, threads=64, cluster_dims=2) as bx:
        S = T.alloc_shared((64,), "float32")
        tx = T.get_thread_binding()
        rank = T.block_rank_in_cluster()
        S[tx] = A[bx, tx]
        T.cluster_sync()
        B[bx, tx] = T.cluster_load(S[63 - tx], rank ^ 1)
        T.cluster_sync()


def test_blocks_read_shared_memory_of_others():
    a = integers(4, 64, dtype=np.float32)
    _, b = results(exchange, a, np.zeros((4, 64), np.float32))
    np.testing.assert_array_equal(a[[1, 0, 3, 2]][:, ::-1], b)


@T.prim_func
def push(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
    with T.Kernel(4, threads=64, cluster_dims=(2,)) as bx:
        S = T.alloc_shared((64,), "float32")
        come = T.alloc_cluster_barrier(1)
        taken = T.alloc_cluster_barrier(64)
        tx = T.get_thread_binding()
        rank = T.block_rank_in_cluster()
        if tx == 0:
            T.mbarrier_arrive_expect_tx(come, 256)
        T.cluster_store_async(S[tx], rank ^ 1, A[bx, tx] + T.get_cluster_block_nums(), come)
        T.barrier_wait(come, 0)
        B[bx, tx] = S[63 - tx]
        T.barrier_arrive(taken, rank ^ 1)
        T.barrier_wait(taken, 0)


def test_blocks_store_to_others_and_arrive_there():
    a = integers(4, 64, dtype=np.float32)
    _, b = results(push, a, np.zeros((4, 64), np.float32))
    np.testing.assert_array_equal(a[[1, 0, 3, 2]][:, ::-1] + 2, b)


@T.prim_func
def multicast_halves(A: T.Tensor((64, 64), "float16"), B: T.Tensor((2, 64, 64), "float16")):
    with T.Kernel(2, threads=128, cluster_dims=2) as bx:
        S = T.alloc_shared((2, 32, 64), "float16")
        come = T.alloc_cluster_barrier(1)
        T.cluster_sync()
        for half in range(2):  # the second is of the block that the mask begins with
            T.tma_copy(A[(bx + half) * 32, 0], S[half, :, :], barrier=come, cluster_mask=3)
        if T.get_thread_binding() == 0:
            T.barrier_arrive(come)
        T.barrier_wait(come, 0)
        for i, j in T.Parallel(64, 64):
            B[bx, i, j] = S[i // 32, i % 32, j]
        T.cluster_sync()


def test_a_tile_is_multicast():
    a = integers(64, 64)
    _, b = results(multicast_halves, a, np.zeros((2, 64, 64), np.float16))
    np.testing.assert_array_equal(np.stack([a, a]), b)
