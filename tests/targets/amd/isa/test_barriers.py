"""Barriers that wait for no memory access: what they order, and what they do not."""

import itertools

import numpy as np
import pytest
from by_hand import ThreadProgram

from tilelang.errors import BarrierDivergence, DataRace, ReadBeforeWrite
from tilelang.targets.amd.isa.barriers import BARRIER_SIGNAL, BARRIER_WAIT, S_BARRIER, lds_barrier
from tilelang.targets.amd.isa.wait_counters import Counters, wait_for_lds, wait_for_loads, wait_for_stores
from tilelang.targets.gpu.isa.fence import FENCE_BLOCK
from tilelang.targets.gpu.isa.sync import SYNC_THREADS

GFX9 = Counters.LOADS_AND_STORES
WAIT = wait_for_lds(GFX9)


@pytest.fixture
def threads():
    return ThreadProgram()


def exchange(p, filled, freed, *, arch="gfx942", size=128, rounds=3, seed=0):
    """Each wave fills a tile, another one reads it; instructions in between order the two, and the next filling."""
    a, out, t = p.tensor("A", (rounds, size)), p.tensor("out", (rounds, size)), p.thread
    with p.kernel(1, threads=size):
        tile = p.shared("tile", (size,))
        with p.serial(0, rounds) as k:
            p.store(tile, (t,), p.load(a, k, t) + 0)
            for instruction in filled:
                p.call(instruction)
            p.store(out, (k, t), p.load(tile, (t + size // 2) % size) + 0)
            for instruction in freed:
                p.call(instruction)
    values = np.arange(rounds * size, dtype=np.float32).reshape(rounds, size)
    result = np.zeros_like(values)
    p.simulate(values, result, arch=arch, seed=seed)
    np.testing.assert_array_equal(np.roll(values, -(size // 2), axis=1), result)


ORDERING = [
    (WAIT, S_BARRIER), (lds_barrier(GFX9),), (SYNC_THREADS,), (FENCE_BLOCK, S_BARRIER),
]  # fmt: skip


@pytest.mark.parametrize(("filled", "freed"), list(itertools.product(ORDERING, ORDERING)))
@pytest.mark.parametrize("seed", range(2))
def test_what_orders_accesses_to_lds(threads, filled, freed, seed):
    exchange(threads, filled, freed, seed=seed)


@pytest.mark.parametrize("weak", [(S_BARRIER,), (S_BARRIER, WAIT), (WAIT,), (wait_for_loads(GFX9), S_BARRIER)])
@pytest.mark.parametrize("freeing", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_what_does_not(threads, weak, freeing, seed):
    strong = (lds_barrier(GFX9),)
    with pytest.raises((DataRace, ReadBeforeWrite)):
        exchange(threads, *((strong, weak) if freeing else (weak, strong)), seed=seed)


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1200"])
def test_waves_of_32_lanes_meet_as_well(threads, arch):
    counters = Counters.SEPARATE_STORES if arch == "gfx1100" else Counters.ALL_SEPARATE
    exchange(threads, (lds_barrier(counters),), (lds_barrier(counters),), arch=arch)


@pytest.mark.parametrize("seed", range(3))
def test_a_split_barrier_orders_what_was_waited_for_before_the_arrival(threads, seed):
    wait = wait_for_lds(Counters.ALL_SEPARATE)
    exchange(threads, (wait, BARRIER_SIGNAL, BARRIER_WAIT), (wait, BARRIER_SIGNAL, BARRIER_WAIT), arch="gfx1200", seed=seed)


@pytest.mark.parametrize("weak", [(BARRIER_SIGNAL, BARRIER_WAIT), (BARRIER_SIGNAL, "wait", BARRIER_WAIT)])
@pytest.mark.parametrize("seed", range(2))
def test_a_split_barrier_without_a_wait_for_memory_orders_nothing(threads, weak, seed):
    wait = wait_for_lds(Counters.ALL_SEPARATE)
    weak = tuple(wait if part == "wait" else part for part in weak)
    with pytest.raises(DataRace):
        exchange(threads, weak, (SYNC_THREADS,), arch="gfx1200", seed=seed)


def test_accesses_between_arrival_and_wait_are_not_ordered(threads):
    p, wait = threads, wait_for_lds(Counters.ALL_SEPARATE)
    out, t = p.tensor("out", (64,)), p.thread
    with p.kernel(1, threads=64):
        tile = p.shared("tile", (64,))
        p.call(BARRIER_SIGNAL)
        p.store(tile, (t,), 1.0)
        p.call(wait)
        p.call(BARRIER_WAIT)
        p.store(out, (t,), p.load(tile, (t + 32) % 64) + 0)
    with pytest.raises(DataRace):
        p.simulate(np.zeros(64, np.float32), arch="gfx1200")


@pytest.mark.parametrize(
    ("calls", "text"),
    [((BARRIER_WAIT,), "waits without having arrived"), ((BARRIER_SIGNAL, BARRIER_SIGNAL), "arrives twice")],
)
def test_arrivals_and_waits_alternate(threads, calls, text):
    with threads.kernel(1, threads=64):
        for instruction in calls:
            threads.call(instruction)
    with pytest.raises(BarrierDivergence, match=text):
        threads.simulate(arch="gfx1200")


def test_a_wave_that_does_not_come_is_named(threads):
    with threads.kernel(1, threads=128), threads.branch(threads.thread < 64):
        threads.call(S_BARRIER)
    with pytest.raises(BarrierDivergence, match="barrier of the block: warp 0 of the block arrived, but warp 1 ended"):
        threads.simulate(arch="gfx942")


def through_global_memory(p, before, arch):
    """Waves exchange values through global memory."""
    out, t = p.tensor("out", (128,)), p.thread
    with p.kernel(1, threads=128):
        p.store(out, (t,), 2.0)
        for instruction in before:
            p.call(instruction)
        p.call(S_BARRIER)
        other = p.local("other", (1,))
        p.store(other, (0,), p.load(out, (t + 64) % 128) + 0)
    p.simulate(np.zeros(128, np.float32), arch=arch)


@pytest.mark.parametrize(
    ("arch", "before"),
    [
        ("gfx942", (wait_for_stores(GFX9),)), ("gfx942", (wait_for_loads(GFX9),)), ("gfx942", (FENCE_BLOCK,)),
        ("gfx1100", (wait_for_stores(Counters.SEPARATE_STORES),)), ("gfx1200", (wait_for_stores(Counters.ALL_SEPARATE),)),
    ],
)  # fmt: skip
def test_stores_to_global_memory_are_waited_for_by_their_counter(threads, arch, before):
    through_global_memory(threads, before, arch)


@pytest.mark.parametrize(
    ("arch", "before"),
    [
        ("gfx942", ()), ("gfx942", (WAIT,)), ("gfx1100", (wait_for_loads(Counters.SEPARATE_STORES),)),
        ("gfx1200", (wait_for_loads(Counters.ALL_SEPARATE), wait_for_lds(Counters.ALL_SEPARATE))),
    ],
)  # fmt: skip
def test_other_counters_do_not_cover_them(threads, arch, before):
    with pytest.raises(DataRace):
        through_global_memory(threads, before, arch)
