"""Multicast loads in clusters give the result of the program, however late copies complete."""

import pytest
from multicast_gemm import TIMINGS, check


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    "cluster,shared,timings",
    [
        ((2, 1), "A", TIMINGS),
        ((1, 2), "B", TIMINGS[2:4]),
        ((2, 2), "AB", TIMINGS[2:4]),
        ((4, 1), "A", TIMINGS[2:4]),
    ],
)
def test_each_block_brings_its_part(cluster, shared, timings):
    sizes, pass_configs = (64 * cluster[1], 64 * cluster[0], 192), {"stages": 2, "persistent": False}
    check(sizes, (64, 64, 64), shared=shared, timings=timings, like={"cluster": cluster}, **pass_configs)


def test_sizes_that_tiles_do_not_divide():
    like = {"cluster": (2, 2)}
    check((100, 120, 136), (64, 64, 64), timings=TIMINGS[2:4], stages=2, persistent=False, like=like)


def test_two_warpgroups_share_tiles_that_come_from_two_blocks():
    check((256, 64, 96), (128, 64, 32), timings=TIMINGS[-1:], stages=2, shared="B", cluster=(1, 2), consumers=2)
