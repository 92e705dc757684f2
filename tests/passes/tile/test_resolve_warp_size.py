"""The size of a warp, and masks of its lanes."""

import tilelang.language as T
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
