from warp_alone import WarpAlone, run

from tilelang.targets.nvidia.isa.opaque_zero import OPAQUE_ZERO


def test_it_is_zero_in_all_threads():
    assert [0] * 32 == list(run(OPAQUE_ZERO, WarpAlone()))
    assert OPAQUE_ZERO.keeps_uniform
