import numpy as np
import pytest
from warp_alone import WarpAlone, run

from tilelang.errors import SimulationError
from tilelang.targets.nvidia.isa.debug import (
    CLOCK64,
    GLOBAL_TIMER,
    NANOSLEEP,
    TRAP,
)

LANES = np.arange(32)


def test_a_trap_stops_whoever_gets_there():
    run(TRAP, WarpAlone(np.zeros(32, bool)))
    with pytest.raises(SimulationError, match="trap"):
        run(TRAP, WarpAlone())


@pytest.mark.parametrize("clock", [CLOCK64, GLOBAL_TIMER])
def test_clocks_advance(clock):
    warp = WarpAlone()
    first, second = run(clock, warp), run(clock, warp)
    assert (second > first).all()
    assert clock.result.numpy == first.dtype


def test_sleeping_ends():
    assert run(NANOSLEEP, WarpAlone(), 100) is None
