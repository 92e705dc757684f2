"""Tiles that the copy engine stores or folds: when they may be written again, and when the tensor may be read."""

import numpy as np
import pytest
from tensor_copies import HOPPER, Engine, plan_of, tensor_map

from tilelang.errors import DataRace, MissingProxyFence, ReadBeforeWrite, SimulationError
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, tma_reduce, tma_store, tma_store_wait

both_ways = pytest.mark.parametrize("lazy", [True, False])


# -- stores -----------------------------------------------------------------------------------------------------------
def stored(
    p,
    *,
    fence="writers",
    order="sync",
    wait=tma_store_wait(0),
    commit=True,
    waiter=0,
    rewrite=True,
):
    """All threads fill a tile, one stores it, all fill it again, and one stores it again elsewhere."""
    engine, t = Engine(p), p.thread
    out = p.tensor("out", (2, 64), "float32")
    back = tensor_map(out, (64, 1))
    with p.kernel(1, plan=plan_of(back)):
        tile = p.shared("tile", (64,), "float32")
        for row in range(2 if rewrite else 1):
            p.store(tile, (t,), t + 100 * row)
            if fence == "writers":
                engine.fence()
            if order == "sync":
                p.sync()
            with engine.one():
                if fence == "one":
                    engine.fence()
                p.call(tma_store(2), back.var, p.at(tile, 0), 0, row)
                if commit:
                    p.call(TMA_STORE_COMMIT)
            if wait is not None:
                with engine.one(waiter):
                    p.call(wait)
            p.sync()


def run_stored(p, **options):
    out = np.zeros((2, 64), np.float32)
    p.simulate(out, arch=HOPPER, **options)
    return out


@both_ways
@pytest.mark.parametrize("read", [True, False])
def test_stores_bring_what_the_tile_held(threads, lazy, read):
    stored(threads, wait=tma_store_wait(0, read=read))
    np.testing.assert_array_equal(run_stored(threads, lazy=lazy), np.arange(64) + np.array([[0], [100]]))


@both_ways
@pytest.mark.parametrize("fence", ["none", "one"])
def test_a_missing_fence_of_the_writers_is_told(threads, lazy, fence):
    stored(threads, fence=fence)
    with pytest.raises(MissingProxyFence) as error:
        run_stored(threads, lazy=lazy)
    assert "was written by thread" in error.value.message and "no proxy fence" in error.value.message
    assert 2 == error.value.notes[0].loc.line


@both_ways
def test_a_missing_barrier_after_the_fence_is_told(threads, lazy):
    stored(threads, order="none")
    with pytest.raises(DataRace):
        run_stored(threads, lazy=lazy)


@pytest.mark.parametrize("change", [{"wait": None}, {"wait": tma_store_wait(1)}, {"commit": False}, {"waiter": 1}])
def test_a_tile_that_is_rewritten_while_a_store_reads_it_is_told(threads, change):
    stored(threads, **change)
    with pytest.raises(DataRace, match="may still be in flight"):
        run_stored(threads)


def test_a_tile_that_is_rewritten_without_a_barrier_behind_the_wait_is_told(threads):
    p, engine = threads, Engine(threads)
    out = p.tensor("out", (64,), "float32")
    back = tensor_map(out, (64,))
    with p.kernel(1, plan=plan_of(back)):
        tile = p.shared("tile", (64,), "float32")
        p.store(tile, (p.thread,), 1)
        engine.fence()
        p.sync()
        with engine.one():
            p.call(tma_store(1), back.var, p.at(tile, 0), 0)
            p.call(TMA_STORE_COMMIT)
            p.call(tma_store_wait(0))
        with engine.one(40):
            p.store(tile, (7,), 2)
    for lazy in (True, False):
        for seed in range(4):
            with pytest.raises(DataRace):
                p.simulate(np.zeros(64, np.float32), arch=HOPPER, lazy=lazy, seed=seed)


def test_a_block_must_not_end_while_a_store_reads(threads):
    stored(threads, wait=None, rewrite=False)
    with pytest.raises(SimulationError, match="'tile': the block ends while a copy that thread 0 started may still read"):
        run_stored(threads)


@both_ways
def test_a_store_may_be_read_back_after_it_has_ended(threads, lazy):
    p, engine, t = threads, Engine(threads), threads.thread
    out, copy = p.tensor("out", (64,), "float32"), p.tensor("copy", (64,), "float32")
    back = tensor_map(out, (64,))
    with p.kernel(1, plan=plan_of(back)):
        tile = p.shared("tile", (64,), "float32")
        p.store(tile, (t,), t)
        engine.fence()
        p.sync()
        with engine.one():
            p.call(tma_store(1), back.var, p.at(tile, 0), 0)
            p.call(TMA_STORE_COMMIT)
            p.call(tma_store_wait(0, read=False))
        p.sync()
        p.store(copy, (t,), p.load(out, t))
    result = np.zeros(64, np.float32)
    p.simulate(np.zeros(64, np.float32), result, arch=HOPPER, lazy=lazy)
    np.testing.assert_array_equal(result, np.arange(64))


def test_waiting_for_reads_is_not_enough_to_read_the_tensor(threads):
    p, engine, t = threads, Engine(threads), threads.thread
    out, copy = p.tensor("out", (64,), "float32"), p.tensor("copy", (64,), "float32")
    back = tensor_map(out, (64,))
    with p.kernel(1, plan=plan_of(back)):
        tile = p.shared("tile", (64,), "float32")
        p.store(tile, (t,), t)
        engine.fence()
        p.sync()
        with engine.one():
            p.call_on(tma_store(1), (back.var, p.at(tile, 0), 0), writes=(p.region(out),))
            p.call(TMA_STORE_COMMIT)
            p.call(tma_store_wait(0))
        p.sync()
        p.store(copy, (t,), p.load(out, t))
    with pytest.raises(ReadBeforeWrite, match="may still be in flight"):
        p.simulate(np.zeros(64, np.float32), np.zeros(64, np.float32), arch=HOPPER)


# -- folds ------------------------------------------------------------------------------------------------------------
def folded(p, *, fill=True, plain=False):
    """Every block adds a tile to a tensor."""
    engine, t = Engine(p), p.thread
    out = p.tensor("out", (64,), "int32")
    back = tensor_map(out, (64,))
    with p.kernel(3, plan=plan_of(back)) as (block,):
        tile = p.shared("tile", (64,), "int32")
        with p.branch(t < (64 if fill else 63)):
            p.store(tile, (t,), t * (block + 1))
        engine.fence()
        p.sync()
        if plain:
            p.store(out, (t,), 0)
        with engine.one():
            p.call_on(tma_reduce(1, "add"), (back.var, p.at(tile, 0), 0), writes=(p.region(out),))
            p.call(TMA_STORE_COMMIT)
            p.call(tma_store_wait(0))


@both_ways
def test_blocks_fold_into_one_tensor(threads, lazy):
    folded(threads)
    out = np.ones(64, np.int32)
    threads.simulate(out, arch=HOPPER, lazy=lazy)
    np.testing.assert_array_equal(out, 1 + 6 * np.arange(64))


def test_folding_what_nobody_wrote_is_told(threads):
    folded(threads, fill=False)
    with pytest.raises(ReadBeforeWrite, match=r"tile\[63\] is read by thread 0 before anything was written"):
        threads.simulate(np.ones(64, np.int32), arch=HOPPER)


def test_folds_and_plain_stores_of_other_blocks_do_not_go_together(threads):
    folded(threads, plain=True)
    with pytest.raises(SimulationError):
        threads.simulate(np.ones(64, np.int32), arch=HOPPER)
