"""Warp primitives: shuffles, votes, reductions, warp barriers."""

import numpy as np
import pytest
from gpu import in_every_schedule

import tilelang.language as T


def integers(*shape, low=-50, high=50):
    return np.random.randint(low, high, shape).astype(np.int32)


@pytest.mark.parametrize("threads", [32, 96, 128])
def test_a_sum_by_shuffles_and_across_warps(threads):
    @T.prim_func
    def main(A: T.Tensor((threads,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=threads):
            tx, lane, warp = T.get_thread_binding(), T.get_lane_idx(), T.get_warp_idx()
            parts = T.alloc_shared((32,), "float32")
            value = T.alloc_var("float32", init=A[tx])
            for i in T.unroll(5):
                value += T.shfl_down(value, 16 >> i)
            if lane == 0:
                parts[warp] = value
            T.sync_threads()
            if warp == 0:
                rest = T.alloc_var("float32", init=0)
                if lane < threads // 32:
                    rest = parts[lane]
                rest = T.warp_reduce_sum(rest)
                if lane == 0:
                    B[0] = rest

    a = np.random.randint(-9, 9, threads).astype(np.float32)
    assert a.sum() == in_every_schedule(main, a, np.zeros(1, np.float32))[1][0]


def test_every_shuffle_takes_the_lane_that_cuda_says():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((6, 64), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = A[tx]
            B[0, tx] = T.shfl_xor(x, 5)
            B[1, tx] = T.shfl_up(x, 3)
            B[2, tx] = T.shfl_down(x, 3)
            B[3, tx] = T.shfl_sync(x, 7)
            B[4, tx] = T.shfl_sync(x, tx * 3, width=8)
            B[5, tx] = T.shfl_down(x, 2, width=4)

    a = integers(64)
    b = in_every_schedule(main, a, np.zeros((6, 64), np.int32))[1]
    t = np.arange(64)
    lane, warp = t % 32, t // 32 * 32
    expected = [
        a[warp + (lane ^ 5)],
        a[np.where(lane >= 3, t - 3, t)],
        a[np.where(lane + 3 < 32, t + 3, t)],
        a[warp + 7],
        a[t // 8 * 8 + t * 3 % 8],
        a[np.where(t % 4 + 2 < 4, t + 2, t)],
    ]
    np.testing.assert_array_equal(expected, b)


def test_votes_and_matches():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((5, 64), "uint32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = A[tx]
            B[0, tx] = T.cast(T.any_sync(x > 2), "uint32")
            B[1, tx] = T.cast(T.all_sync(x >= 0), "uint32")
            B[2, tx] = T.ballot_sync(x > 1)
            B[3, tx] = T.match_any_sync(x)
            B[4, tx] = T.match_all_sync(x)

    a = np.concatenate([np.arange(32) % 4, np.full(32, 2)]).astype(np.int32)
    b = in_every_schedule(main, a, np.zeros((5, 64), np.uint32))[1]

    def mask(values):
        return sum(1 << i for i, v in enumerate(values) if v)

    for w in range(2):
        x = a[w * 32 : w * 32 + 32]
        rows = [
            [(x > 2).any()] * 32,
            [(x >= 0).all()] * 32,
            [mask(x > 1)] * 32,
            [mask(x == v) for v in x],
            [0xFFFFFFFF if len(set(x)) == 1 else 0] * 32,
        ]
        np.testing.assert_array_equal(np.array(rows, np.uint32), b[:, w * 32 : w * 32 + 32])


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(dtype, name) for dtype in ("int32", "float32", "float16", "int64") for name in ("sum", "max", "min")]
    + [(dtype, name) for dtype in ("int32", "int64") for name in ("bitand", "bitor")],
)
def test_folds_over_a_warp(dtype, name):
    fold = getattr(T, f"warp_reduce_{name}")

    @T.prim_func
    def main(A: T.Tensor((96,), dtype), B: T.Tensor((96,), dtype)):
        with T.Kernel(1, threads=96):
            tx = T.get_thread_binding()
            B[tx] = fold(A[tx])

    a = np.random.randint(0, 30, 96).astype(dtype)
    function = {
        "sum": np.sum,
        "max": np.max,
        "min": np.min,
        "bitand": np.bitwise_and.reduce,
        "bitor": np.bitwise_or.reduce,
    }
    expected = [function[name](a[w : w + 32]) for w in (0, 32, 64)]
    np.testing.assert_array_equal(np.repeat(np.array(expected, dtype), 32), in_every_schedule(main, a, np.zeros_like(a))[1])


def test_some_lanes_of_a_warp_meet():
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((32,), "int32")
            if tx < 16:
                s[tx] = A[tx]
                T.sync_warp(0xFFFF)
                B[tx] = s[15 - tx] + T.shfl_xor(A[tx], 1, mask=0xFFFF)
            else:
                B[tx] = T.cast(T.activemask() >> 16, "int32")

    a = integers(32)
    t = np.arange(16)
    expected = np.concatenate([a[15 - t] + a[t ^ 1], np.full(16, 0xFFFF)])
    np.testing.assert_array_equal(expected, in_every_schedule(main, a, np.zeros_like(a))[1])
