"""Barriers of a block: of all threads and of some, arrivals without waiting, and warps that do not come."""

import numpy as np
import pytest

from tilelang.errors import BarrierDivergence, DataRace, Deadlock, Loc
from tilelang.sim.barriers import Barriers
from tilelang.sim.clocks import Clocks
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC

HERE = Loc("kernel.py", 3)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def barriers(warps):
    clocks = Clocks(warps * 32, warp_size=32)
    return Barriers([np.arange(w * 32, w * 32 + 32) for w in range(warps)], clocks), clocks


def knows(clocks, thread, other, time):
    return bool(clocks.happened_before(np.array([thread]), np.array([other]), np.array([time]))[0])


def test_a_barrier_opens_when_all_have_arrived():
    all_of_them, _ = barriers(3)
    waits = [next(all_of_them.barrier_sync(0, warp, HERE, None)) for warp in range(2)]
    assert not any(wait.ready() for wait in waits)
    assert "barrier 0 of all threads" == waits[0].what
    last = next(all_of_them.barrier_sync(0, 2, HERE, None))
    assert last.ready() and all(wait.ready() for wait in waits)
    assert 1 == all_of_them.full_syncs


def test_a_barrier_can_be_used_again():
    all_of_them, _ = barriers(2)
    for _ in range(3):
        first = next(all_of_them.barrier_sync(0, 0, HERE, None))
        assert not first.ready()
        next(all_of_them.barrier_sync(0, 1, HERE, None))
        assert first.ready()


def test_a_named_barrier_counts_its_own_threads():
    all_of_them, clocks = barriers(3)
    time = clocks.now
    next(all_of_them.barrier_sync(1, 0, HERE, 64))
    assert next(all_of_them.barrier_sync(1, 2, HERE, 64)).ready()
    assert knows(clocks, 70, 0, time) and knows(clocks, 0, 70, time)
    assert not knows(clocks, 40, 0, time)
    assert 0 == all_of_them.full_syncs


def test_who_only_arrives_learns_nothing():
    all_of_them, clocks = barriers(2)
    time = clocks.now
    wait = next(all_of_them.barrier_sync(1, 1, HERE, 64))
    all_of_them.arrive(1, 0, HERE, 64, waits=False)
    assert wait.ready()
    assert knows(clocks, 40, 0, time)
    assert not knows(clocks, 0, 40, time)


@pytest.mark.parametrize("threads", [48, 0])
def test_barriers_count_whole_warps(threads):
    with pytest.raises(BarrierDivergence, match="a barrier counts whole warps of 32 threads"):
        barriers(2)[0].arrive(1, 0, HERE, threads, waits=True)


def test_different_ideas_of_who_takes_part():
    all_of_them, _ = barriers(4)
    all_of_them.arrive(1, 0, HERE, 64, waits=True)
    with pytest.raises(BarrierDivergence, match="warp 2 expects 96 threads, but warp 0 expects 64") as error:
        all_of_them.arrive(1, 2, HERE, 96, waits=True)
    assert HERE == error.value.notes[0].loc


def test_a_warp_that_arrives_twice():
    all_of_them, _ = barriers(4)
    all_of_them.arrive(1, 0, HERE, 64, waits=False)
    with pytest.raises(BarrierDivergence, match="warp 0 arrives twice"):
        all_of_them.arrive(1, 0, HERE, 64, waits=True)


def test_ended_warps_are_missed():
    all_of_them, _ = barriers(3)
    assert all_of_them.absent({1}) is None
    next(all_of_them.barrier_sync(0, 0, HERE, None))
    number, _, missing = all_of_them.absent({1})
    assert (0, [1]) == (number, missing)


def test_arrivals_that_nobody_waits_for():
    all_of_them, _ = barriers(2)
    all_of_them.arrive(1, 0, HERE, 64, waits=False)
    with pytest.raises(BarrierDivergence, match="barrier 1: the block ends when 32 of 64 threads have arrived") as error:
        all_of_them.check_complete()
    assert HERE == error.value.loc
    all_of_them.arrive(1, 1, HERE, 64, waits=True)
    all_of_them.check_complete()


# -- in programs ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(3))
def test_a_barrier_that_one_warp_never_reaches(threads, seed):
    with threads.kernel(1, threads=96):
        with threads.branch(threads.thread < 64):
            threads.sync()
    with pytest.raises(BarrierDivergence) as error:
        threads.simulate(seed=seed)
    assert "barrier 0: warps 0, 1 of the block arrived, but warp 2 ended without doing so" == error.value.message
    assert 1 == error.value.loc.line
    assert ["warp 0 waits for barrier 0 of all threads", "warp 1 waits for barrier 0 of all threads"] == [
        note.text for note in error.value.notes
    ]


def test_a_barrier_that_some_lanes_never_reach(threads):
    with threads.kernel(1, threads=32):
        with threads.branch(threads.thread < 20):
            threads.sync()
    with pytest.raises(BarrierDivergence, match="only lanes 0-19 of warp 0 reach it"):
        threads.simulate()


def test_a_barrier_in_a_loop_of_different_lengths(threads):
    with threads.kernel(1, threads=64):
        with threads.serial(0, threads.thread // 32 + 1):
            threads.sync()
    with pytest.raises(BarrierDivergence):
        threads.simulate()


def test_a_barrier_in_a_uniform_branch(threads):
    out = threads.tensor("out", (4, 64))
    t = threads.thread
    with threads.kernel(4) as (bx,):
        tile = threads.shared("tile", (64,))
        threads.store(tile, (t,), t)
        with threads.branch(bx % 2 == 0):
            threads.sync()
            threads.store(out, (bx, t), threads.load(tile, 63 - t))
    result = zeros(4, 64)
    threads.simulate(result)
    np.testing.assert_array_equal(result[2], np.arange(64)[::-1])


def test_a_block_of_part_of_a_warp_meets(threads):
    out = threads.tensor("out", (40,))
    t = threads.thread
    with threads.kernel(1, threads=40):
        tile = threads.shared("tile", (40,))
        threads.store(tile, (t,), t)
        threads.sync()
        threads.store(out, (t,), threads.load(tile, 39 - t))
    result = zeros(40)
    threads.simulate(result)
    np.testing.assert_array_equal(result, np.arange(40)[::-1])


def ring(threads, *, correct):
    """Warp 0 fills a tile, warps 1 and 2 read it; named barriers say when it is full and when it is free."""
    out = threads.tensor("out", (4, 64))
    t = threads.thread
    with threads.kernel(1, threads=96):
        tile = threads.shared("tile", (32,))
        with threads.serial(0, 4) as i:
            with threads.branch(t < 32):
                with threads.branch(i > 0):
                    threads.call(BAR_SYNC, 2, 96)
                threads.store(tile, (t,), t + i * 100)
                threads.call(BAR_ARRIVE, 1, 96)
            with threads.branch(t >= 32):
                threads.call(BAR_SYNC, 1, 96)
                threads.store(out, (i, t - 32), threads.load(tile, (t - 32) % 32) + 0)
                if correct:
                    with threads.branch(i < 3):
                        threads.call(BAR_ARRIVE, 2, 96)
    return threads


@pytest.mark.parametrize("seed", range(3))
def test_producers_and_consumers_meet_at_named_barriers(threads, seed):
    result = zeros(4, 64)
    ring(threads, correct=True).simulate(result, seed=seed)
    expected = np.arange(4)[:, None] * 100 + np.arange(64) % 32
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("seed", range(3))
def test_a_forgotten_arrival_is_a_deadlock(threads, seed):
    with pytest.raises(Deadlock) as error:
        ring(threads, correct=False).simulate(zeros(4, 64), seed=seed)
    assert "warps 0, 1, 2 wait forever" == error.value.message
    assert ["warp 0 waits for barrier 2 of all threads", "warp 1 waits for barrier 1 of all threads"] == [
        note.text for note in error.value.notes[:2]
    ]
    assert [2, 7] == [note.loc.line for note in error.value.notes[:2]]


def test_a_barrier_of_some_does_not_order_others(threads):
    t = threads.thread
    with threads.kernel(1, threads=96):
        tile = threads.shared("tile", (32,))
        with threads.branch(t < 32):
            threads.store(tile, (t,), t)
        with threads.branch(t < 64):
            threads.call(BAR_SYNC, 1, 64)
        with threads.branch(t >= 64):
            threads.store(tile, (t - 64,), 1)
    with pytest.raises(DataRace):
        threads.simulate()


def two_groups(p, *, meeting):
    """Two warps meet at a named barrier, then the two others at the same one."""
    with p.kernel(1, threads=128):
        with p.branch(p.thread < 64):
            p.call(BAR_SYNC, 1, 64)
        if meeting:
            p.sync()
        with p.branch(p.thread >= 64):
            p.call(BAR_SYNC, 1, 64)


@pytest.mark.parametrize("seed", range(6))
def test_two_groups_may_not_meet_at_one_barrier_at_a_time(threads, seed):
    two_groups(threads, meeting=False)
    with pytest.raises(BarrierDivergence, match="may arrive while warps ., . still synchronize there"):
        threads.simulate(seed=seed)


def test_two_groups_may_use_one_barrier_one_after_the_other(threads):
    two_groups(threads, meeting=True)
    threads.simulate()
