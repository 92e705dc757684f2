"""Explicit TMA copies (`T.tma_copy`) on Hopper: boxes and rows of tiles, views, overlapped stores; and faults."""

import numpy as np
import pytest
from hopper import failures, integers, results

import tilelang.language as T
from tilelang.errors import DataRace


@T.prim_func
def overlapped_stores(C: T.Tensor((100, 120), "float32")):
    with T.Kernel(1, threads=128):
        C_s = T.alloc_shared((2, 100, 32), "float32")
        for j in T.serial(4):
            T.tma_store_wait(1)
            for p, q in T.Parallel(100, 32):
                C_s[j % 2, p, q] = p * 128 + j * 32 + q
            T.tma_copy(C_s[j % 2, :, :], C[0:100, j * 32 : j * 32 + 32])
        T.tma_store_wait()


def test_stores_overlap_writes_of_the_next_tile():
    (c,) = results(overlapped_stores, np.zeros((100, 120), np.float32))
    np.testing.assert_array_equal(np.arange(100)[:, None] * 128 + np.arange(120), c)


@T.prim_func
def store_without_wait(C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        C_s = T.alloc_shared((64, 32), "float32")
        for j in T.serial(2):
            for p, q in T.Parallel(64, 32):
                C_s[p, q] = j
            T.tma_copy(C_s, C[0:64, j * 32 : j * 32 + 32])
        T.tma_store_wait()


def test_the_barrier_of_a_copy_precedes_waits_of_groups():
    """A barrier between the groups would keep the second from freeing what the first waits for."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=384):
            whole = T.alloc_shared((64, 64), "float16")
            ready, free, full = T.alloc_barrier(384), T.alloc_barrier(256), T.alloc_barrier(128)
            tx = T.get_thread_binding()
            T.copy(A, whole)
            T.barrier_arrive(ready)
            if tx >= 256:
                T.barrier_wait(free, 0)
                T.barrier_arrive(full)
            elif tx < 128:
                T.barrier_wait(ready, 0)
                T.barrier_arrive(free)
                T.barrier_wait(full, 0)
                for i, j in T.Parallel(64, 32):
                    B[i, j] = whole[63 - i, j]
            else:
                T.barrier_arrive(free)
                T.barrier_wait(ready, 0)
                for i, j in T.Parallel(64, 32):
                    B[i, 32 + j] = whole[63 - i, 32 + j]

    a = integers(64, 64)
    _, b = results(main, a, np.zeros_like(a))
    np.testing.assert_array_equal(a[::-1], b)


def test_boxes_of_a_tile_are_copied_separately():
    @T.prim_func
    def main(A: T.Tensor((128, 256), "float16"), B: T.Tensor((128, 256), "float16")):
        with T.Kernel(2, threads=128) as bx:
            tile = T.alloc_shared((64, 256), "float16")
            full = T.alloc_barrier([128] * 4)
            for j in T.unroll(4):
                T.tma_copy(
                    A[bx * 64 : (bx + 1) * 64, (3 - j) * 64 : (4 - j) * 64],
                    tile[:, j * 64 : (j + 1) * 64],
                    barrier=full[j],
                )
                T.barrier_arrive(full[j])
            for j in T.unroll(4):
                T.barrier_wait(full[j], 0)
            for i, j in T.Parallel(64, 256):
                tile[i, j] = tile[i, j] + 1
            T.fence_proxy_async()
            T.sync_threads()
            for j in T.serial(2):
                T.tma_copy(tile[:, j * 128 : (j + 1) * 128], B[bx * 64 : (bx + 1) * 64, j * 128 : (j + 1) * 128])
            T.tma_store_wait()

    a = integers(128, 256)
    expected = a.reshape(128, 4, 64)[:, ::-1].reshape(128, 256) + 1
    _, b = results(main, a, np.zeros_like(a))
    np.testing.assert_array_equal(expected, b)


@pytest.mark.parametrize("is_swizzled", [True, False])
def test_rows_of_a_tile_are_copied_separately(is_swizzled):
    @T.prim_func
    def main(A: T.Tensor((64, 128), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((8, 128), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((2, 32, 128), "float16")
            if is_swizzled:
                T.annotate_layout({tile: T.make_swizzled_layout(tile)})
            full = T.alloc_barrier([128] * 2)
            for s in T.unroll(2):
                for half in T.unroll(2):
                    for j in T.unroll(2):
                        T.tma_copy(
                            A[s * 32 + (1 - half) * 16 : s * 32 + (2 - half) * 16, j * 64 : (j + 1) * 64],
                            tile[s, half * 16 : (half + 1) * 16, j * 64 : (j + 1) * 64],
                            barrier=full[s],
                        )
                T.barrier_arrive(full[s])
            for s in T.unroll(2):
                T.barrier_wait(full[s], 0)
            T.sync_threads()
            T.tma_copy(A[63:64, :], tile[1, 8:9, :], barrier=full[0])
            T.barrier_arrive(full[0])
            T.barrier_wait(full[0], 1)
            for s, i, j in T.Parallel(2, 32, 128):
                B[s * 32 + i, j] = tile[s, i, j]
            T.tma_copy(tile[0, 24:32, :], C)
            T.tma_store_wait()

    a = integers(64, 128)
    expected = a.reshape(2, 2, 16, 128)[:, ::-1].reshape(64, 128).copy()
    expected[40] = a[63]
    _, b, c = results(main, a, np.zeros_like(a), np.zeros_like(a[:8]))
    np.testing.assert_array_equal(expected, b)
    np.testing.assert_array_equal(expected[24:32], c)


@pytest.mark.parametrize("is_swizzled", [True, False])
def test_a_view_of_a_tile_is_loaded(is_swizzled):
    @T.prim_func
    def main(A: T.Tensor((8, 32, 64), "float16"), B: T.Tensor((8, 16, 64), "float16")):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((2, 64, 64), "float16")
            if is_swizzled:
                T.annotate_layout({q: T.make_swizzled_layout(q)})
            tiles = T.view(q, [2, 4, 16, 64])
            full = T.alloc_barrier([128] * 2)
            for s in T.unroll(2):
                T.tma_copy(A[s * 4 : s * 4 + 4, 16:32, :], tiles[s, :, :, :], barrier=full[s])
                T.barrier_arrive(full[s])
            for s in T.unroll(2):
                T.barrier_wait(full[s], 0)
            for s, i, j in T.Parallel(2, 64, 64):
                B[s * 4 + i // 16, i % 16, j] = q[s, i, j]

    a = integers(8, 32, 64)
    _, b = results(main, a, np.zeros_like(a[:, :16]))
    np.testing.assert_array_equal(a[:, 16:], b)


def test_a_write_to_a_tile_that_is_stored_is_reported():
    found = list(failures(store_without_wait, np.zeros((64, 64), np.float32)))
    assert any(isinstance(error, DataRace) for error in found)
