import numpy as np
import pytest
from fake_cuda import needs_nvrtc
from gpu import in_every_schedule, lower_func
from harness import run_reference_on_copies

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


@T.prim_func
def pushed(A: T.Tensor((4, 16, 64), "float32"), B: T.Tensor((4, 16, 64), "float16"), C: T.Tensor((4, 8), "float32")):
    with T.Kernel(4, threads=128, cluster_dims=4) as bx:
        s, r = T.alloc_shared((16, 64), "float32"), T.alloc_shared((16, 64), "float16")
        part, one = T.alloc_shared((16, 8), "float32"), T.alloc_shared((1,), "float32")
        full = T.alloc_cluster_barrier([1])
        rank = T.block_rank_in_cluster()
        T.copy(A[bx, :, :], s)
        T.cluster_sync()
        T.copy_cluster(s, r, dst_block=(rank + 1) % 4, remote_barrier=full[0])
        T.copy_cluster(s[0:2, 8:16], part[4:6, :], dst_block=rank ^ 1)
        T.copy_cluster(s[3:4, 5:6], one, dst_block=(rank + 2) % 4)
        T.mbarrier_wait_parity(full[0], 0)
        T.copy(r, B[bx, :, :])
        T.cluster_sync()
        for i in T.Parallel(8):
            C[bx, i] = part[5, i] + one[0]


def test_a_tile_goes_to_another_block():
    a = np.random.default_rng(0).integers(-50, 50, (4, 16, 64)).astype(np.float32)
    _, b, c = in_every_schedule(pushed, a, np.zeros((4, 16, 64), np.float16), np.zeros((4, 8), np.float32), arch="sm_90a")
    np.testing.assert_array_equal(a[[3, 0, 1, 2]], b)
    np.testing.assert_array_equal(a[[1, 0, 3, 2], 1, 8:16] + a[[2, 3, 0, 1], 3, 5][:, None], c)


def received(engine, mask):
    @T.prim_func
    def main(A: T.Tensor((4, 64, 64), "float16"), B: T.Tensor((2, 4, 32, 64), "float16")):
        with T.Kernel(4, 2, threads=128, cluster_dims=(2, 2)) as (bx, by):
            s = T.alloc_shared((32, 64), "float16")
            row = by * 32
            if engine:
                full = T.alloc_cluster_barrier([1])
                T.cluster_sync()
                T.tma_copy(A[bx, row : row + 32, :], s, barrier=full[0], cluster_mask=mask)
                if T.get_thread_binding() == 0:
                    T.barrier_arrive(full)
                T.barrier_wait(full, 0)
            else:
                T.copy_cluster(A[bx, row : row + 32, :], s, cluster_mask=mask)
            T.copy(s, B[by, bx, :, :])
            if engine:
                T.cluster_sync()

    return main


@pytest.mark.parametrize("mask", [0b1111, 0b1010])
def test_blocks_receive_the_tile_of_the_lowest(mask):
    """Blocks have ranks with x running fastest; what a mask does not name has its own tile."""
    a = np.random.default_rng(0).integers(-50, 50, (4, 64, 64)).astype(np.float16)
    lowest = (mask & -mask).bit_length() - 1
    expected = np.zeros((2, 4, 32, 64), np.float16)
    for by, bx in np.ndindex(2, 4):
        x, y = bx, by
        if mask >> (bx % 2 + 2 * by) & 1:
            x, y = bx - bx % 2 + lowest % 2, lowest // 2
        expected[by, bx] = a[x, y * 32 : y * 32 + 32]
    np.testing.assert_array_equal(expected, run_reference_on_copies(received(False, mask), [a, expected * 0])[1])
    for engine in (False, True):
        _, b = in_every_schedule(received(engine, mask), a, np.zeros_like(expected), arch="sm_90a")
        np.testing.assert_array_equal(expected, b)


def test_the_lowest_block_starts_the_engine_for_all():
    func = lower_func(received(True, 0b1111), "sm_90a")
    names = {s.routine.name for s in walk(func.body) if isinstance(s, CallStmt)}
    assert any("multicast" in name for name in names)


@needs_nvrtc
def test_the_text_compiles():
    for func in (pushed, received(True, 0b0110)):
        assert 0 == tilelang.compile(func, target=HOPPER).resources.spill_bytes


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"dst_block": 1, "cluster_mask": 1}, ValueError, "T.copy_cluster: dst_block and cluster_mask do not go together"),
        ({"remote_barrier": 0, "cluster_mask": 1}, ValueError, "T.copy_cluster: remote_barrier goes with dst_block only"),
        ({"loop_layout": 0}, ValueError, "T.copy_cluster: loop_layout goes with dst_block only"),
        ({"cluster_mask": 4}, ValueError, "T.copy_cluster: cluster_mask is 0b100, but the bits of a cluster of 2 are"),
        ({"dst_block": 1}, ProgramError, "T.copy_cluster: with dst_block a tile goes from shared.dyn to shared.dyn"),
        ({"annotations": {"dst_block": 2}}, ProgramError, "T.copy_cluster: with dst_block a tile goes from shared.dyn"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, kind, message):
    with pytest.raises(kind) as caught:

        @T.prim_func
        def main(A: T.Tensor((64,), "float16")):
            with T.Kernel(2, threads=32, cluster_dims=2):
                T.copy_cluster(A, T.alloc_shared((64,), "float16"), **options)

    assert caught.value.message.startswith(message)
