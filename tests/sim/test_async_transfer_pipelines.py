"""Pipelines that the copy engine fills: barriers with phases, and how each of their bugs is reported."""

import numpy as np
import pytest
from tensor_copies import HOPPER, Engine, halves, image_of_box, plan_of, tensor_map

from tilelang.errors import DataRace, Deadlock, ReadBeforeWrite, SimulationError
from tilelang.targets.gpu.isa.sync import SYNC_WARP
from tilelang.targets.nvidia.isa.tma import tma_load

both_ways = pytest.mark.parametrize("lazy", [True, False])
seeds = pytest.mark.parametrize("seed", range(3))


# -- a ring -----------------------------------------------------------------------------------------------------------
STAGES, TILES, ROWS = 2, 5, 8


def ring(
    p,
    *,
    full_parity=lambda k: k // STAGES % 2,
    empty_parity=lambda k: k // STAGES % 2 ^ 1,
    size=ROWS * 32,
    waits=True,
    frees=True,
    reads=lambda k: k % STAGES,
):
    """Warp 2 fills a ring of tiles of A, warps 0 and 1 copy them out."""
    engine, t = Engine(p), p.thread
    a, out = p.tensor("A", (TILES * ROWS, 16), "float16"), p.tensor("out", (TILES * ROWS * 16,), "float16")
    there = tensor_map(a, (16, ROWS), 32)
    with p.kernel(1, threads=96, plan=plan_of(there)):
        tile = p.shared("tile", (STAGES, ROWS * 16), "float16")
        full, empty = engine.barriers("full", STAGES), engine.barriers("empty", STAGES)
        engine.init((full, 1), (empty, 2))
        with p.branch(t == 64), p.serial(0, TILES) as k:
            if frees:
                engine.wait(empty, k % STAGES, empty_parity(k))
            engine.announce(full, k % STAGES, size)
            p.call(tma_load(2), p.at(tile, k % STAGES, 0), there.var, p.at(full, k % STAGES), 0, k * ROWS)
        with p.branch(t < 64), p.serial(0, TILES) as k:
            if waits:
                engine.wait(full, k % STAGES, full_parity(k))
            for half in (0, 64):
                p.store(out, (k * ROWS * 16 + half + t,), p.load(tile, reads(k), half + t) + 0)
            p.call(SYNC_WARP, 0xFFFFFFFF)
            with p.branch(t % 32 == 0):
                engine.arrive(empty, k % STAGES)


def run_ring(p, **options):
    array, out = halves(TILES * ROWS, 16), np.zeros(TILES * ROWS * 16, np.float16)
    p.simulate(array, out, arch=HOPPER, **options)
    return array, out


@both_ways
@seeds
def test_a_ring_brings_all_tiles(threads, lazy, seed):
    ring(threads)
    array, out = run_ring(threads, lazy=lazy, seed=seed)
    tiles = [image_of_box(array, (0, k * ROWS), (16, ROWS), 32, 0).view(np.float16) for k in range(TILES)]
    np.testing.assert_array_equal(out, np.concatenate(tiles))


@seeds
def test_a_consumer_of_the_wrong_parity_reads_what_has_not_come(threads, seed):
    ring(threads, full_parity=lambda k: k // STAGES % 2 ^ 1)
    with pytest.raises((ReadBeforeWrite, DataRace)):
        run_ring(threads, seed=seed)


@both_ways
@seeds
def test_a_consumer_that_does_not_wait_is_found(threads, lazy, seed):
    ring(threads, waits=False)
    with pytest.raises((ReadBeforeWrite, DataRace)):
        run_ring(threads, seed=seed, lazy=lazy)


@both_ways
@seeds
def test_a_consumer_of_another_stage_than_it_waited_for_is_found(threads, lazy, seed):
    ring(threads, reads=lambda k: (k + 1) % STAGES)
    with pytest.raises((ReadBeforeWrite, DataRace)):
        run_ring(threads, seed=seed, lazy=lazy)


@both_ways
@seeds
def test_a_producer_that_does_not_wait_for_the_stage_is_found(threads, lazy, seed):
    ring(threads, frees=False)
    with pytest.raises(SimulationError) as error:
        run_ring(threads, seed=seed, lazy=lazy)
    assert not isinstance(error.value, Deadlock)


@both_ways
def test_a_producer_of_the_wrong_parity_never_begins(threads, lazy):
    ring(threads, empty_parity=lambda k: k // STAGES % 2)
    with pytest.raises(Deadlock) as error:
        run_ring(threads, lazy=lazy)
    assert "mbarrier 'empty[0]'" in str(error.value)


def test_bytes_that_never_come_are_told(threads):
    ring(threads, size=ROWS * 32 + 16)
    with pytest.raises(Deadlock) as error:
        run_ring(threads)
    assert f"{ROWS * 32 + 16} bytes have not come ({ROWS * 32} are pending)" in str(error.value)


@both_ways
def test_bytes_that_nobody_announced_are_told(threads, lazy):
    ring(threads, size=ROWS * 32 - 16)
    with pytest.raises(Deadlock, match="bytes"):
        run_ring(threads, lazy=lazy)


# -- phases -----------------------------------------------------------------------------------------------------------
def in_turn(p, *, told):
    """Two warps wait for one phase each of a barrier; if `told`, the second learns first of what the other waited for."""
    engine, out = Engine(p), p.tensor("out", (1,))
    with p.kernel(1, threads=96):
        tile = p.shared("tile", (1,))
        full, order, seen = (engine.barriers(name, 1) for name in ("full", "order", "seen"))
        engine.init((full, 1), (order, 32), (seen, 32))
        with p.branch(p.thread < 32):
            engine.wait(full, 0, 0)
            engine.arrive(order, 0)
            engine.arrive(seen, 0)
        with p.branch((p.thread >= 32) & (p.thread < 64)):
            if told:
                engine.wait(order, 0, 0)
            engine.wait(full, 0, 1)
            with p.branch(p.thread == 32):
                p.store(out, (0,), p.load(tile, 0))
        with engine.one(64):
            engine.arrive(full, 0)
            engine.wait(seen, 0, 0)
            p.store(tile, (0,), 5)
            engine.arrive(full, 0)


@both_ways
@pytest.mark.parametrize("seed", range(6))
def test_a_wait_that_an_earlier_phase_may_let_through_is_told_in_every_order(threads, lazy, seed):
    in_turn(threads, told=False)
    words = r"'full\[0\]' may begin before the phase of parity 0 is complete|'?tile\[0\]'? is read|what is stored there"
    with pytest.raises(SimulationError, match=words):
        threads.simulate(np.zeros(1, np.float32), arch=HOPPER, lazy=lazy, seed=seed)


@both_ways
@seeds
def test_whoever_knows_of_the_phase_before_may_wait_for_the_next(threads, lazy, seed):
    in_turn(threads, told=True)
    out = np.zeros(1, np.float32)
    threads.simulate(out, arch=HOPPER, lazy=lazy, seed=seed)
    assert out[0] == 5


def syncs(p, count):
    """Warps arrive in every round, and wait for the round; a phase counts so many of their 64 threads."""
    engine = Engine(p)
    with p.kernel(1, threads=64):
        bar = engine.barriers("bar", 1)
        engine.init((bar, count))
        with p.serial(0, 4) as i:
            engine.arrive(bar, 0)
            engine.wait(bar, 0, i % 2)


@both_ways
@seeds
def test_an_arrival_that_may_be_counted_too_early_is_told(threads, lazy, seed):
    syncs(threads, 32)
    with pytest.raises(DataRace, match=r"the arrival at 'bar\[0\]' in its phase . may come before phase . is complete"):
        threads.simulate(arch=HOPPER, lazy=lazy, seed=seed)


@both_ways
@seeds
def test_those_that_wait_for_each_phase_may_arrive_for_the_next(threads, lazy, seed):
    syncs(threads, 64)
    threads.simulate(arch=HOPPER, lazy=lazy, seed=seed)
