import numpy as np
import pytest
from warp_alone import WarpAlone, run

from tilelang.errors import NoLowering
from tilelang.ir.buffer import Scope
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async

LANES = np.arange(32)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_copies_land_at_the_wait_with_zeros_where_nothing_is_kept(size):
    warp, count = WarpAlone(), size // 2
    source = warp.buffer("float16", np.arange(32 * count) + 1)
    target = warp.buffer("float16", np.full(32 * count, -1), Scope.SHARED)
    run(cp_async(size), warp, target + LANES * count, source + LANES * count, LANES != 3)
    run(CP_ASYNC_COMMIT, warp)
    run(CP_ASYNC_WAIT, warp, 1)
    assert (warp.values(target) == -1).all()
    run(CP_ASYNC_WAIT, warp, 0)
    expected = np.arange(32 * count).reshape(32, count) + 1
    expected[3] = 0
    assert expected.ravel().tolist() == warp.values(target).tolist()


@pytest.mark.parametrize("size", [4, 8, 16])
def test_lanes_without_the_predicate_write_nothing(size):
    warp, count = WarpAlone(), size // 2
    source = warp.buffer("float16", np.arange(32 * count) + 1)
    target = warp.buffer("float16", np.full(32 * count, -1), Scope.SHARED)
    copy = cp_async(size, predicated=True)
    run(copy, warp, target + LANES * count, source + LANES * count, LANES != 3, LANES > 1)
    run(CP_ASYNC_COMMIT, warp)
    run(CP_ASYNC_WAIT, warp, 0)
    expected = np.arange(32 * count).reshape(32, count) + 1
    expected[:2], expected[3] = -1, 0
    assert expected.ravel().tolist() == warp.values(target).tolist()


def test_bytes_move_between_buffers_of_other_dtypes():
    warp = WarpAlone(LANES < 1)
    source, target = warp.buffer("uint8", np.arange(16)), warp.buffer("uint32", np.zeros(4), Scope.SHARED)
    run(cp_async(16), warp, target, source, True)
    run(CP_ASYNC_COMMIT, warp)
    run(CP_ASYNC_WAIT, warp, 0)
    assert list(range(16)) == warp.values(target).view(np.uint8).tolist()


def test_copies_go_by_their_own_unit_and_say_where_bounds_tests_go():
    assert (CP_ASYNC, 2) == (cp_async(4).async_unit, cp_async(4).predicate)


def test_sixteen_bytes_go_past_the_first_cache():
    assert ["ca", "ca", "cg"] == [
        next(word for word in ("ca", "cg") if f"cp.async.{word}." in cp_async(size).helpers["cuda"].text)
        for size in (4, 8, 16)
    ]


def test_other_sizes_are_refused():
    with pytest.raises(NoLowering, match="copies 4, 8 or 16 bytes, not 2"):
        cp_async(2)
