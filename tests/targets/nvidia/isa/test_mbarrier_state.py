"""What a barrier that counts arrivals and bytes knows of its phases."""

import numpy as np
import pytest

from tilelang.errors import NOWHERE, DataRace, SimulationError
from tilelang.isa.simulated import Moment
from tilelang.targets.nvidia.isa.mbarrier_state import MAX_TX_BYTES, MBarrier, PendingWork


def at(*times):
    return np.array(times, np.int64)


def test_a_phase_ends_with_its_last_arrival_and_byte():
    barrier = MBarrier("b", 2, 2)
    barrier.expect_tx(64)
    barrier.arrive(2, at(0))
    assert (0, "in its phase 0 2 of 2 arrivals have come, and 64 bytes have not come") == (
        barrier.phase,
        barrier.progress(),
    )
    barrier.complete_tx(64, at(1))
    assert (1, 2, 0) == (barrier.phase, barrier.pending, barrier.pending_bytes)
    assert barrier.passes(0) and not barrier.passes(1)


def test_whoever_waits_has_to_know_of_the_phase_before():
    barrier = MBarrier("b", 1, 1)
    assert barrier.clock_before(0) is None and barrier.clock_before(1) is None  # the first, and the one before it
    barrier.arrive(1, at(1, 0))
    assert barrier.clock_before(0) is None  # phase 0 is the first
    np.testing.assert_array_equal(barrier.clock_before(1), [1, 0])  # phase 1 comes after phase 0
    barrier.arrive(1, at(0, 2))
    np.testing.assert_array_equal(barrier.clock_before(1), [1, 0])  # phase 1, which is over
    np.testing.assert_array_equal(barrier.clock_before(0), [1, 2])  # phase 2, which is not


def moment(seen):
    return Moment(3, NOWHERE, lambda clock: seen)


@pytest.mark.parametrize(("is_over", "seen"), [(True, True), (True, False), (False, True)])
def test_a_phase_completes_when_all_waits_for_the_one_before_have_ended(is_over, seen):
    barrier = MBarrier("b", 1, 1)
    wait = barrier.wait(0, moment(False))
    if is_over:
        wait.end(moment(seen))
    barrier.arrive(1, at(0))
    if is_over and seen:
        barrier.arrive(1, at(1))
        assert [] == barrier.waits
    else:
        with pytest.raises(DataRace, match="warp 3 may still wait for phase 0 of 'b' when phase 1 completes"):
            barrier.arrive(1, at(1))


def test_a_producer_waits_for_the_phase_before_the_first():
    barrier = MBarrier("b", 1, 1)
    assert -1 == barrier.wait(1, moment(False)).phase
    with pytest.raises(DataRace, match="warp 3 may still wait for phase -1 of 'b' when phase 0 completes"):
        barrier.arrive(1, at(0))


def test_work_that_completes_a_phase_lands_together():
    barrier, completed = MBarrier("b", 1, 1), []

    def work(count):
        def complete():
            completed.append(count)
            barrier.complete_tx(count, at(0))

        return PendingWork(complete, bytes=count)

    barrier.pending_work = [work(16), work(48), work(32)]
    barrier.expect_tx(64)
    barrier.complete_early()
    assert not completed  # an arrival is missing
    barrier.arrive(1, at(0))
    barrier.complete_early()
    assert ([16, 48], 1, 1) == (completed, barrier.phase, len(barrier.pending_work))


def test_bytes_and_arrivals_have_bounds():
    barrier = MBarrier("b", 1, 1)
    with pytest.raises(SimulationError, match="counts up to 1048575 bytes"):
        barrier.expect_tx(MAX_TX_BYTES + 1)
    barrier = MBarrier("b", 1, 1, pending_bytes=16)
    barrier.arrive(1, at(0))
    with pytest.raises(SimulationError, match="one arrival too many at 'b'"):
        barrier.arrive(1, at(0))
