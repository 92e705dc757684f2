"""Lanes and waves by their numbers, on waves of 64 lanes."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering


@pytest.mark.parametrize(("given", "size"), [(None, 64), (32, 32)])
def test_lanes_and_waves_are_counted_as_the_machine_has_them(given, size):
    @T.prim_func
    def main(A: T.Tensor((512, 3), "int32")):
        with T.Kernel(1, threads=512):
            t = T.get_thread_binding()
            A[t, 0] = T.get_lane_idx(given)
            A[t, 1] = T.get_warp_idx(given)
            A[t, 2] = T.get_warp_group_idx(given)

    found, numbers = np.zeros((512, 3), np.int32), np.arange(512)
    tilelang.compile(main, target="invented")(found)
    np.testing.assert_array_equal(found, np.stack([numbers % size, numbers // size, numbers // (4 * size)], axis=1))


def test_waves_may_branch_by_their_numbers():
    @T.prim_func
    def main(A: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=128):
            if T.get_warp_idx() == 1:
                s = T.alloc_shared((64,), "int32")
                for i in T.Parallel(64):
                    s[i] = i
                for i in T.Parallel(64):
                    A[i] = s[63 - i]

    found = np.zeros(256, np.int32)
    tilelang.compile(main, target="invented")(found)
    np.testing.assert_array_equal(found[:64], np.arange(64)[::-1])


def test_votes_of_all_lanes_have_a_bit_for_each():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64, 3), "uint64")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            T.sync_warp()
            B[t, 0] = T.ballot_sync(A[t] > 0)
            B[t, 1] = T.cast(T.any_sync(A[t] > 40), "uint64")
            B[t, 2] = T.cast(T.all_sync(A[t] >= 0), "uint64")

    numbers, found = np.arange(64, dtype=np.int32) - 31, np.zeros((64, 3), np.uint64)
    tilelang.compile(main, target="invented")(numbers, found)
    assert {(2**64 - 2**32, 0, 0)} == {tuple(map(int, row)) for row in found}
    numbers += 31
    tilelang.compile(main, target="invented")(numbers, found)
    assert {(2**64 - 2, 1, 1)} == {tuple(map(int, row)) for row in found}


@pytest.mark.parametrize(
    ("call", "name", "instead"),
    [
        (lambda x: T.warp_reduce_sum(x), "T.warp_reduce_sum", "T.reduce_sum"),
        (lambda x: T.shfl_down(x, 1), "T.shfl_down", "T.reduce_sum"),
        (lambda x: T.ballot_sync(x > 0, mask=0xFFFF), "T.ballot_sync", "T.reduce_sum"),
        (lambda x: T.activemask(), "T.activemask", "T.reduce_sum"),
        (lambda x: T.shuffle_elect(64), "T.shuffle_elect", "T.get_lane_idx() == 0"),
    ],
)
def test_masks_of_32_bits_are_refused(call, name, instead):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            A[t] = T.cast(call(A[t]), "int32")

    with pytest.raises(NoLowering) as caught:
        tilelang.compile(main, target="invented")
    assert f"{name}: names lanes by the bits of a uint32, but a warp of wave64 has 64 lanes" == caught.value.message
    assert instead in caught.value.hint
    assert __file__ == caught.value.loc.file
