from warp_alone import WarpAlone, run

from tilelang.targets.nvidia.isa.renewed import RENEWED


def test_it_is_the_same_value_in_each_thread():
    warp = WarpAlone()
    assert list(range(32)) == list(run(RENEWED, warp, warp.lane))
    assert [7] * 32 == list(run(RENEWED, warp, 7))
    assert RENEWED.keeps_uniform
