import numpy as np
import pytest
from gpu import simulate_func

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk


def calls(kernel):
    return [s for s in walk(kernel.body) if isinstance(s, CallStmt)]


def test_a_shuffle_keeps_the_dtype_of_its_value():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float16")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[tx] = T.shfl_xor(A[tx], 1)

    (call,) = calls(kernel)
    assert "shuffle_xor_float16" == call.routine.name
    assert "float16" == call.result.dtype
    assert [0xFFFFFFFF, 1, 32] == [call.args[n].value for n in (0, 2, 3)]


def test_bool_is_shuffled_as_int32():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if T.shfl_down(A[tx] > 0, 1):
                A[tx] = 1

    (call,) = calls(kernel)
    assert "int32" == call.result.dtype


@pytest.mark.parametrize("fold", ["sum", "max", "min", "bitand", "bitor"])
def test_a_reduction_over_a_warp_takes_five_shuffles(fold):
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[tx] = getattr(T, f"warp_reduce_{fold}")(A[tx])

    assert [16, 8, 4, 2, 1] == [call.args[2].value for call in calls(kernel)]


def test_votes_and_matches_give_masks_and_truths():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "uint32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            positive = A[tx] > 1
            some = T.any_sync(positive)
            every = T.all_sync(positive)
            mask = T.ballot_sync(positive) | T.match_any_sync(A[tx]) | T.match_all_sync(A[tx], 0xFFFF) | T.activemask()
            A[tx] = T.if_then_else(some, mask, T.if_then_else(every, mask + 1, mask + 2))

    names = ["any", "all", "ballot", "match_any", "match_all"]
    assert names == [c.routine.name for c in calls(kernel)][:5]
    assert ["bool", "bool", "uint32", "uint32", "uint32"] == [str(c.result.dtype) for c in calls(kernel)][:5]


def test_the_width_of_a_shuffle_is_a_power_of_two():
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = T.shfl_up(A[0], 1, width=12)

    assert "T.shfl_up: width is 12" == caught.value.message
    assert "write 1, 2, 4, 8, 16 or 32, or 64 for wide warps" == caught.value.hint


def test_one_thread_of_a_group_or_of_the_block_is_elected():
    @T.prim_func
    def kernel(A: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            A[tx] = 0
            if T.shuffle_elect(128):
                A[tx] = 1
            if T.shuffle_elect(0):
                A[tx] += 2
            if T.shuffle_elect():
                A[tx] += 4

    (after,) = simulate_func(kernel, [np.full(256, -1, np.int32)])
    expected = np.zeros(256, np.int32)
    expected[::32] = 4
    expected[128], expected[0] = 5, 7
    np.testing.assert_array_equal(expected, after)


def test_groups_of_threads_are_whole_warps():
    with pytest.raises(ProgramError, match="T.shuffle_elect: 33 threads"):

        @T.prim_func
        def kernel(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=64):
                if T.shuffle_elect(33):
                    A[0] = 1


def test_a_warp_instruction_needs_a_kernel_around_it():
    with pytest.raises(ProgramError, match="T.activemask: stands outside of a kernel"):

        @T.prim_func
        def kernel(A: T.Tensor((32,), "float32")):
            T.activemask()


def test_shuffles_and_votes_have_the_names_of_tvm_and_of_cuda():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "uint64")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            T.evaluate(T.tvm_warp_shuffle(T.tvm_warp_activemask(), A[tx], 3, 32, 32))
            T.evaluate(T.tvm_warp_shuffle_up(0xFFFFFFFF, A[tx], 1, 32, 32))
            T.evaluate(T.tvm_warp_shuffle_down(0xFFFFFFFF, A[tx], 1, 32, 32))
            T.evaluate(T.shfl_sync(A[tx], srcLane=0))
            T.evaluate(T.shfl_up(A[tx], delta=1))
            B[tx] = T.ballot(tx % 2)

    names = [s.routine.name for s in walk(kernel.body) if isinstance(s, CallStmt)]
    modes = [f"shuffle_{mode}_float32" for mode in ("idx", "up", "down", "idx", "up")]
    assert ["active_mask", *modes, "ballot"] == names


@pytest.mark.parametrize("name", ["any_sync", "all_sync", "ballot_sync", "ballot", "match_any_sync", "match_all_sync"])
def test_votes_on_floats_are_refused(name):
    with pytest.raises(TypeError, match=f"T.{name}: requires an integer or boolean predicate, got float32"):

        @T.prim_func
        def kernel(A: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                T.evaluate(getattr(T, name)(A[T.get_thread_binding()]))
