"""Copies that a whole warp asks for where nobody knows that it comes together."""

import numpy as np

import tilelang
import tilelang.language as T


@T.prim_func
def claimed(A: T.Tensor((4, 64), "float16"), B: T.Tensor((4, 64), "float16"), Next: T.Tensor((1,), "int32")):
    with T.Kernel(1, threads=64):
        tile, bar = T.alloc_shared((64,), "float16"), T.alloc_barrier([32])
        item, work = T.alloc_shared((1,), "int32"), T.alloc_local((1,), "int32")
        tx = T.get_thread_binding()
        if tx < 32:
            work[0] = 0
            if tx == 0:
                work[0] = T.atomic_add(Next[0], 1, return_prev=True)
            work[0] = T.shfl_sync(work[0], 0)
            if work[0] < 4:
                item[0] = work[0]
                T.tma_copy(A[work[0], :], tile, barrier=bar)
                T.mbarrier_arrive(bar)
        T.mbarrier_wait_parity(bar, 0)
        B[item[0], tx] = tile[tx]


def test_one_thread_of_a_warp_starts_the_engine():
    a, b = np.arange(256, dtype=np.float16).reshape(4, 64), np.zeros((4, 64), np.float16)
    kernel = tilelang.compile(claimed, execution_backend="simulator", target={"kind": "cuda", "arch": "sm_90a"})
    kernel(a, b, np.array([2], np.int32))
    assert [0, 0, 64, 0] == np.count_nonzero(b, axis=1).tolist()
    np.testing.assert_array_equal(a[2], b[2])
