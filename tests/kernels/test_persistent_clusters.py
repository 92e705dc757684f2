"""Persistent clusters: blocks compute tiles of the grid together, and pipelines continue from tile to tile."""

import pytest
from multicast_gemm import TIMINGS, check


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("cluster,shared,turns", [((2, 1), "A", False), ((1, 2), "B", True), ((2, 2), "AB", False)])
def test_clusters_that_stay_for_several_tiles(cluster, shared, turns):
    pass_configs = {"persistent": True, "ping_pong": turns, "stages": 3, "cluster": cluster}
    sizes = (64 * cluster[1], 128 * cluster[0], 192)
    check(sizes, (64, 64, 64), shared=shared, blocks=1, timings=[TIMINGS[0], TIMINGS[4]], **pass_configs)


def test_sizes_that_tiles_do_not_divide():
    like, pass_configs = {"cluster": (2, 1)}, {"stages": 2, "persistent": True, "ping_pong": False}
    check((100, 120, 136), (64, 64, 64), shared="A", blocks=2, timings=TIMINGS[::3], like=like, **pass_configs)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    "like", [{"transposed": (True, True)}, {"transposed": (False, True), "dtype": "bfloat16"}, {"epilogue": True}]
)
def test_layouts_dtypes_and_epilogues(like):
    pass_configs = {"stages": 2, "cluster": (1, 2), "persistent": True, "ping_pong": False}
    check((128, 128, 96), (64, 64, 64), shared="B", blocks=2, timings=TIMINGS[2:4], like=like, **pass_configs)
