import numpy as np
import pytest
from warp_alone import FULL, WarpAlone, run

from tilelang.errors import SimulationError
from tilelang.isa.instruction import Effect, Group
from tilelang.targets.nvidia.isa.sync import BAR_ARRIVE, BAR_SYNC, SYNC_GRID, SYNC_THREADS, SYNC_WARP


def test_the_block_barrier_is_for_all_threads():
    warp = WarpAlone()
    run(SYNC_THREADS, warp)
    assert [("meet", 0, None)] == warp.asked
    assert (Group.BLOCK, Effect.SYNC_BLOCK) == (SYNC_THREADS.group, SYNC_THREADS.effect)


def test_named_barriers_are_for_some_warps():
    warp = WarpAlone()
    run(BAR_SYNC, warp, 3, np.full(32, 64))
    run(BAR_ARRIVE, warp, 4, 96)
    assert [("meet", 3, 64), ("arrive", 4, 96)] == warp.asked


@pytest.mark.parametrize("instruction", [BAR_SYNC, BAR_ARRIVE])
def test_barriers_and_counts_that_do_not_exist_are_errors(instruction):
    with pytest.raises(SimulationError, match="barrier 16 does not exist"):
        run(instruction, WarpAlone(), 16, 64)
    with pytest.raises(SimulationError, match="48 threads are no whole number of warps"):
        run(instruction, WarpAlone(), 1, 48)


def test_lanes_meet_within_their_mask():
    warp = WarpAlone(np.arange(32) < 4)
    run(SYNC_WARP, warp, 0xF)
    assert ["converge", "meet_lanes"] == [name for name, *_ in warp.asked]
    with pytest.raises(SimulationError, match="leaves that lane out"):
        run(SYNC_WARP, warp, FULL & ~1)


def test_the_barrier_of_the_grid_is_one_of_the_block_first():
    warp = WarpAlone()
    run(SYNC_GRID, warp)
    assert [("meet", 0, None), ("meet_grid",)] == warp.asked
    assert Effect.SYNC_BLOCK in SYNC_GRID.effect and Effect.SYNC_GRID in SYNC_GRID.effect
