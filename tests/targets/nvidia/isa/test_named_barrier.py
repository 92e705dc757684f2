import numpy as np
import pytest
from warp_alone import WarpAlone, run

from tilelang.errors import SimulationError
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC, BAR_SYNC_OR


def test_named_barriers_are_for_some_warps():
    warp = WarpAlone()
    run(BAR_SYNC, warp, 3, np.full(32, 64))
    run(BAR_ARRIVE, warp, 4, 96)
    assert [("barrier_sync", 3, 64), ("arrive", 4, 96)] == warp.asked


@pytest.mark.parametrize("lane", [None, 0, 31])
def test_a_named_barrier_tells_whether_a_predicate_holds_in_any_thread(lane):
    warp = WarpAlone()
    np.testing.assert_array_equal(run(BAR_SYNC_OR, warp, 3, 32, np.arange(32) == lane), [int(lane is not None)] * 32)
    assert [("barrier_sync", 3, 32)] == warp.asked


@pytest.mark.parametrize("instruction", [BAR_SYNC, BAR_ARRIVE])
def test_barriers_and_counts_that_do_not_exist_are_errors(instruction):
    with pytest.raises(SimulationError, match="barrier 16 does not exist"):
        run(instruction, WarpAlone(), 16, 64)
    with pytest.raises(SimulationError, match="48 threads are no whole number of warps"):
        run(instruction, WarpAlone(), 1, 48)
