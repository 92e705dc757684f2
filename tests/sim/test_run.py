"""Whole thread-level programs on the simulator."""

import numpy as np
import pytest

from tilelang.errors import DataRace, ReadBeforeWrite


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_every_thread_runs_the_body(threads):
    out = threads.tensor("out", (4, 64))
    with threads.kernel(4) as (bx,):
        threads.store(out, (bx, threads.thread), bx * 100 + threads.thread)
    result = zeros(4, 64)
    threads.simulate(result)
    np.testing.assert_array_equal(result, np.arange(4)[:, None] * 100 + np.arange(64))


def test_a_barrier_makes_shared_memory_visible(threads):
    out = threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1):
        tile = threads.shared("tile", (64,))
        threads.store(tile, (t,), t)
        threads.sync()
        threads.store(out, (t,), threads.load(tile, 63 - t))
    result = zeros(64)
    threads.simulate(result)
    np.testing.assert_array_equal(result, np.arange(64)[::-1])


def test_a_missing_barrier_is_a_race(threads):
    out = threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1):
        tile = threads.shared("tile", (64,))
        threads.store(tile, (t,), t)
        threads.store(out, (t,), threads.load(tile, (t + 32) % 64))
    with pytest.raises((DataRace, ReadBeforeWrite)) as error:
        threads.simulate(zeros(64))
    print(error.value)
