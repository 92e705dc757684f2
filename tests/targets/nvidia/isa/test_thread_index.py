from warp_alone import WarpAlone, run

from tilelang.targets.nvidia.isa.thread_index import THREAD_INDEX


def test_threads_are_numbered_through_the_warps():
    warp = WarpAlone()
    warp.index = 3
    assert list(range(96, 128)) == list(run(THREAD_INDEX, warp))
    assert not THREAD_INDEX.keeps_uniform
