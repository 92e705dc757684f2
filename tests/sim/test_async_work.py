"""Asynchronous copies: they complete in the wait that guarantees them, and nobody may touch what is on its way."""

import numpy as np
import pytest

from tilelang.errors import DataRace, ReadBeforeWrite
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async

COPY = cp_async(4)


def ramp(n=64):
    return np.arange(n, dtype=np.float32)


def copy(threads, *, commit=True, wait=0, sync=True, other=False, lanes=None, **options):
    """Every thread copies one element and, after waiting, reads it, or that of another warp."""
    a, out = threads.tensor("A", (64,)), threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1):
        tile = threads.shared("tile", (64,))
        threads.call(COPY, threads.at(tile, t), threads.at(a, t), True)
        if commit:
            threads.call(CP_ASYNC_COMMIT)
        if wait is not None:
            threads.call(CP_ASYNC_WAIT, wait)
        if sync:
            threads.sync()
        threads.store(out, (t,), threads.load(tile, (t + 32) % 64 if other else t) + 0)
    result = np.zeros(64, np.float32)
    threads.simulate(ramp(), result, **options)
    return result


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_copy_is_there_after_wait_and_barrier(threads, lazy, seed):
    np.testing.assert_array_equal(copy(threads, other=True, lazy=lazy, seed=seed), np.roll(ramp(), -32))


@pytest.mark.parametrize("change", [{"wait": None}, {"wait": 1}, {"commit": False}])
def test_without_its_wait_a_copy_has_not_landed(threads, change):
    with pytest.raises(ReadBeforeWrite) as error:
        copy(threads, **change)
    assert "while an asynchronous copy of thread" in error.value.message
    assert "that fills it may still be in flight" in error.value.message
    assert 2 == error.value.notes[0].loc.line


def test_eagerly_a_missing_wait_goes_unnoticed(threads):
    np.testing.assert_array_equal(copy(threads, wait=None, lazy=False), ramp())


@pytest.mark.parametrize("lazy", [True, False])
def test_without_a_barrier_other_warps_do_not_see_a_copy(threads, lazy):
    with pytest.raises((DataRace, ReadBeforeWrite)):
        copy(threads, sync=False, other=True, lazy=lazy)


def test_a_thread_sees_its_own_copy_without_a_barrier(threads):
    np.testing.assert_array_equal(copy(threads, sync=False), ramp())


def pipeline(threads, *, stages=2, pending=1, sync_before=True, versions=None):
    """Each thread keeps `stages` copies in flight through a ring of tiles; warps read each other's."""
    a, out = threads.tensor("A", (8, 64)), threads.tensor("out", (8, 64))
    t, versions = threads.thread, versions or stages
    with threads.kernel(1):
        ring = threads.shared("ring", (versions, 64))

        def load(k):
            threads.call(COPY, threads.at(ring, k % versions, t), threads.at(a, k, t), True)

        for k in range(stages - 1):
            load(k)
            threads.call(CP_ASYNC_COMMIT)
        with threads.serial(0, 8) as k:
            if sync_before:
                threads.sync()
            with threads.branch(k + (stages - 1) < 8):
                load(k + (stages - 1))
            threads.call(CP_ASYNC_COMMIT)
            threads.call(CP_ASYNC_WAIT, pending)
            threads.sync()
            threads.store(out, (k, t), threads.load(ring, k % versions, 63 - t) + 0)
    return threads


def run_pipeline(threads, **options):
    a, result = np.arange(512, dtype=np.float32).reshape(8, 64), np.zeros((8, 64), np.float32)
    threads.simulate(a, result, **options)
    np.testing.assert_array_equal(result, a[:, ::-1])


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("lazy", [True, False])
def test_a_ring_of_copies(threads, stages, seed, lazy):
    run_pipeline(pipeline(threads, stages=stages, pending=stages - 1), seed=seed, lazy=lazy)


def test_a_wait_that_leaves_one_group_too_many_pending(threads):
    with pytest.raises(ReadBeforeWrite):
        run_pipeline(pipeline(threads, stages=3, pending=3))


def test_a_ring_with_one_version_too_few(threads):
    with pytest.raises((DataRace, ReadBeforeWrite)):
        run_pipeline(pipeline(threads, stages=3, pending=2, versions=2))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lazy", [True, False])
def test_a_tile_that_is_refilled_while_others_may_still_read_it(threads, seed, lazy):
    with pytest.raises((DataRace, ReadBeforeWrite)):
        run_pipeline(pipeline(threads, stages=2, pending=1, sync_before=False), seed=seed, lazy=lazy)


def test_what_a_copy_fills_must_not_be_written(threads):
    a = threads.tensor("A", (64,))
    t = threads.thread
    with threads.kernel(1):
        tile = threads.shared("tile", (64,))
        threads.call(COPY, threads.at(tile, t), threads.at(a, t), True)
        threads.store(tile, (t,), 0)
    with pytest.raises(DataRace, match="is written by thread .* that fills it may still be in flight"):
        threads.simulate(ramp())


def test_what_a_copy_reads_must_not_be_written(threads):
    a = threads.tensor("A", (64,))
    t = threads.thread
    with threads.kernel(1):
        tile = threads.shared("tile", (64,))
        threads.call(COPY, threads.at(tile, t), threads.at(a, t), True)
        threads.store(a, (t,), 0)
    with pytest.raises(DataRace, match="that reads it may still be in flight"):
        threads.simulate(ramp())


def test_a_copy_that_keeps_nothing_writes_zeros_and_reads_nothing(threads):
    a, out = threads.tensor("A", (40,)), threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1):
        tile = threads.shared("tile", (64,))
        threads.call(COPY, threads.at(tile, t), threads.at(a, t), t < 40)
        threads.call(CP_ASYNC_COMMIT)
        threads.call(CP_ASYNC_WAIT, 0)
        threads.store(out, (t,), threads.load(tile, t))
    result = np.ones(64, np.float32)
    threads.simulate(ramp(40), result)
    np.testing.assert_array_equal(result, np.where(ramp() < 40, ramp(), 0))


def test_lanes_wait_for_their_own_groups(threads):
    """Even lanes commit once, odd lanes twice; waiting for all but one lands only what the odd lanes began first."""
    a, out = threads.tensor("A", (2, 32)), threads.tensor("out", (2, 32))
    t = threads.thread
    with threads.kernel(1, threads=32):
        tile = threads.shared("tile", (2, 32))
        threads.call(COPY, threads.at(tile, 0, t), threads.at(a, 0, t), True)
        threads.call(CP_ASYNC_COMMIT)
        with threads.branch(t % 2 == 1):
            threads.call(COPY, threads.at(tile, 1, t), threads.at(a, 1, t), True)
            threads.call(CP_ASYNC_COMMIT)
        threads.call(CP_ASYNC_WAIT, 1)
        with threads.branch(t % 2 == 1):
            threads.store(out, (0, t), threads.load(tile, 0, t) + 0)
        with threads.branch(t % 2 == 0):
            threads.store(out, (0, t), threads.load(tile, 0, t) + 0)
    with pytest.raises(ReadBeforeWrite, match=r"tile\[0, 0\] is read by thread 0"):
        threads.simulate(np.ones((2, 32), np.float32), np.zeros((2, 32), np.float32))


def test_copies_that_nobody_waits_for_end_with_the_block(threads):
    a, out = threads.tensor("A", (64,)), threads.tensor("out", (2, 64))
    t = threads.thread
    with threads.kernel(2) as (bx,):
        tile = threads.shared("tile", (64,))
        threads.call(COPY, threads.at(tile, t), threads.at(a, t), True)
        threads.store(out, (bx, t), 1)
    result = np.zeros((2, 64), np.float32)
    threads.simulate(ramp(), result)
    assert (result == 1).all()
