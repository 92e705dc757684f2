"""The size of a warp, and masks of its lanes."""

import pytest

import tilelang.language as T
from tilelang.errors import NoLowering
from tilelang.ir.printer import to_text
from tilelang.passes.base import PassContext
from tilelang.passes.tile import resolve_warp_size
from tilelang.targets.target import Target

SM80 = PassContext(target=Target("cuda", "sm_80"))


@T.prim_func
def places(A: T.Tensor((256,), "int32")):
    with T.Kernel(1, threads=256):
        A[T.get_lane_idx()] = T.get_warp_idx() * T.get_warp_group_idx()


@T.prim_func
def votes(A: T.Tensor((256,), "int32")):
    with T.Kernel(1, threads=256):
        t = T.get_thread_binding()
        A[t] = T.warp_reduce_sum(A[t])


def test_programs_are_written_without_it():
    assert "A[thread % warp_size] = thread // warp_size * (thread // (warp_size * 4))" in to_text(places.body)
    text = to_text(resolve_warp_size.PASS.run(places, SM80).body)
    assert "A[thread % 32] = thread // 32 * (thread // 128)" in text


def test_what_has_nothing_of_warps_stays():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            T.clear(A)

    assert main is resolve_warp_size.PASS.run(main, SM80)


def test_masks_of_32_bits_suit_warps_of_32_lanes():
    assert votes is resolve_warp_size.PASS.run(votes, SM80)


def test_votes_of_all_lanes_get_a_bit_for_each_lane_of_a_wide_warp():
    @T.prim_func
    def main(A: T.Tensor((64,), "uint64")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            T.sync_warp()
            A[t] = T.ballot_sync(A[t] > 1)

    text = to_text(resolve_warp_size.PASS.run(main, PassContext(target=Target("hip", "gfx942"))).body)
    assert 2 == text.count("18446744073709551615")
    assert "4294967295" in to_text(resolve_warp_size.PASS.run(main, PassContext(target=Target("hip", "gfx1100"))).body)


def shuffled(width):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            A[t] = T.shfl_xor(A[t], 1, width=width)

    return main


@pytest.mark.parametrize("width", [16, 64])
def test_shuffles_that_say_which_lanes_they_mean_get_a_bit_for_each_lane(width):
    text = to_text(resolve_warp_size.PASS.run(shuffled(width), PassContext(target=Target("hip", "gfx942"))).body)
    assert 1 == text.count("18446744073709551615")


@pytest.mark.parametrize(("target", "width", "message", "hint"), [
    (("hip", "gfx942"), 32, "names lanes by the bits of a uint32", "or width=64 for shuffles among 64 lanes"),
    (("hip", "gfx1100"), 64, "a width of 64 lanes, but a warp of gfx1100 has 32", "write width=32"),
    (("cuda", "sm_80"), 64, "a width of 64 lanes, but a warp of sm_80 has 32", "write width=32"),
])  # fmt: skip
def test_shuffles_of_another_warp_size_are_refused(target, width, message, hint):
    with pytest.raises(NoLowering, match=message) as caught:
        resolve_warp_size.PASS.run(shuffled(width), PassContext(target=Target(*target)))
    assert caught.value.hint.endswith(hint)
