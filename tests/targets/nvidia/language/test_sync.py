import numpy as np
import pytest
from harness import simulate_on_copies

import tilelang.language as T
from tilelang.errors import ProgramError, ProgramTypeError
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.targets.gpu.isa.fence import FENCE_BLOCK, FENCE_DEVICE, FENCE_SYSTEM
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC


def test_barriers_and_fences_are_calls_of_their_instructions():
    @T.prim_func
    def kernel(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            T.sync_threads()
            T.sync_threads(3, 64)
            T.named_barrier_arrive(2)
            T.sync_warp()
            T.thread_fence()
            T.thread_fence("block")
            T.thread_fence("system")

    calls = [s for s in walk(kernel.body) if isinstance(s, CallStmt)]
    expected = [SYNC_THREADS, BAR_SYNC, BAR_ARRIVE, SYNC_WARP, FENCE_DEVICE, FENCE_BLOCK, FENCE_SYSTEM]
    assert expected == [call.routine for call in calls]
    assert [3, 64] == [arg.value for arg in calls[1].args]
    assert [2, 128] == [arg.value for arg in calls[2].args]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: T.sync_threads(16), "T.sync_threads: there is no barrier 16"),
        (lambda: T.sync_threads(1, 50), "T.sync_threads: 50 threads take part, but the block has 128, in warps of 32"),
        (lambda: T.sync_threads(1, 256), "T.sync_threads: 256 threads take part, but the block has 128, in warps of 32"),
        (lambda: T.thread_fence("grid"), "T.thread_fence: 'grid' is no scope"),
    ],
)
def test_barriers_that_cannot_be_are_refused(call, message):
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                call()

    assert message == caught.value.message


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_a_barrier_of_the_block_counts_predicates(arch):
    @T.prim_func
    def main(A: T.Tensor((96,), "int32"), B: T.Tensor((7, 96), "int32")):
        with T.Kernel(1, threads=96):
            tx = T.get_thread_binding()
            B[0, tx] = T.syncthreads_count(A[tx])
            B[1, tx] = T.syncthreads_and(A[tx] > 0)
            B[2, tx] = T.syncthreads_and(A[tx] >= 0)
            B[3, tx] = T.syncthreads_or(A[tx] > 2)
            B[4, tx] = T.syncthreads_or(A[tx] == 2)
            for i in T.serial(2):
                B[5 + i, tx] = T.syncthreads_count(tx > 50 + i)

    given = np.arange(96, dtype=np.int32) % 3
    _, counted = simulate_on_copies(main, [given, np.zeros((7, 96), np.int32)], arch)
    assert (np.array([[64], [0], [1], [0], [1], [45], [44]]) == counted).all()


def test_a_predicate_is_an_integer_or_a_bool():
    with pytest.raises(ProgramTypeError, match="T.syncthreads_or: requires an integer or boolean predicate, got float32"):
        T.syncthreads_or(T.float32(1))
