from warp_alone import WarpAlone, run

from tilelang.targets.nvidia.isa.warpgroup_index import WARPGROUP_INDEX


def test_four_neighboring_warps_have_one_index():
    indices = []
    for index in range(8):
        warp = WarpAlone()
        warp.index = index
        (value,) = set(run(WARPGROUP_INDEX, warp))
        indices.append(value)
    assert [0] * 4 + [1] * 4 == indices
    assert WARPGROUP_INDEX.keeps_uniform
