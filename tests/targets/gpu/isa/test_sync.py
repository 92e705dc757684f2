import numpy as np
import pytest
from warp_alone import FULL, WarpAlone, run

from tilelang.errors import SimulationError
from tilelang.isa.instruction import Effect, ExecutionScope
from tilelang.targets.gpu.isa.sync import SYNC_GRID, SYNC_THREADS, SYNC_WARP


def test_the_block_barrier_is_for_all_threads():
    warp = WarpAlone()
    run(SYNC_THREADS, warp)
    assert [("barrier_sync", 0, None)] == warp.asked
    assert (ExecutionScope.BLOCK, Effect.SYNC_BLOCK) == (SYNC_THREADS.execution_scope, SYNC_THREADS.effect)


def test_lanes_of_a_mask_synchronize():
    warp = WarpAlone(np.arange(32) < 4)
    run(SYNC_WARP, warp, 0xF)
    assert Effect.SYNC_WARP is SYNC_WARP.effect
    assert ["converge", "warp_sync"] == [name for name, *_ in warp.asked]
    with pytest.raises(SimulationError, match="does not include that lane"):
        run(SYNC_WARP, warp, FULL & ~1)


def test_the_barrier_of_the_grid_is_one_of_the_block_first():
    warp = WarpAlone()
    run(SYNC_GRID, warp)
    assert [("barrier_sync", 0, None), ("grid_sync",)] == warp.asked
    assert Effect.SYNC_BLOCK in SYNC_GRID.effect and Effect.SYNC_GRID in SYNC_GRID.effect
