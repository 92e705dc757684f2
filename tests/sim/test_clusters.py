"""Blocks of a cluster: they run together, reach each other's memory, and what goes wrong between them is told."""

import numpy as np
import pytest
from tensor_copies import HOPPER, Engine, plan_of, tensor_map

from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.errors import BarrierDivergence, DataRace, Deadlock, SimulationError
from tilelang.ir.expr import Load, Var, as_expr, cast
from tilelang.sim.counters import Counters
from tilelang.targets.gpu.isa.fence import FENCE_DEVICE
from tilelang.targets.nvidia.isa.cluster import (
    CLUSTER_ARRIVE,
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_RANK,
    CLUSTER_SIZE,
    CLUSTER_WAIT,
    cluster_load,
    cluster_store,
    cluster_store_async,
    mbarrier_arrive_remote,
)
from tilelang.targets.nvidia.isa.mbarrier import FENCE_MBARRIER_INIT, MBARRIER_INIT
from tilelang.targets.nvidia.isa.tma import tma_load

both_ways = pytest.mark.parametrize("lazy", [True, False])
seeds = pytest.mark.parametrize("seed", range(4))
PAIR = (2, 1, 1)


def cluster_sync(p, arrive=CLUSTER_ARRIVE):
    p.call(arrive)
    p.call(CLUSTER_WAIT)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def fails(p, error, *arrays, match, seeds=range(4), **options):
    """Every order of warps, lazily and eagerly, ends with the error."""
    for seed in seeds:
        for lazy in (True, False):
            with pytest.raises(error, match=match) as caught:
                p.simulate(*[a.copy() for a in arrays], arch=HOPPER, seed=seed, lazy=lazy, **options)
    return caught.value


def test_blocks_know_their_place_in_the_cluster(threads):
    out = threads.tensor("out", (2, 4, 2), "int32")
    rank, size = Var("rank", INT32), Var("size", INT32)
    with threads.kernel(4, 2, cluster=(2, 2, 1)) as (bx, by):
        threads.call(CLUSTER_RANK, result=rank)
        threads.call(CLUSTER_SIZE, result=size)
        with threads.branch(threads.thread == 0):
            threads.store(out, (by, bx, 0), rank)
            threads.store(out, (by, bx, 1), size)
    array = zeros(2, 4, 2, dtype=np.int32)
    threads.simulate(array, arch=HOPPER)
    np.testing.assert_array_equal(array[..., 0], [[0, 1, 0, 1], [2, 3, 2, 3]])
    assert (array[..., 1] == 4).all()


def test_blocks_that_run_together_are_counted(threads):
    with threads.kernel(6, threads=96, cluster=PAIR):
        cluster_sync(threads)
    report = Counters()
    threads.simulate(arch=HOPPER, report=report)
    assert (6, 18) == (report.blocks, report.warps)


def test_a_grid_that_cannot_be_cut_is_refused(threads):
    with threads.kernel(3, cluster=PAIR):
        cluster_sync(threads)
    with pytest.raises(SimulationError, match="the grid cannot be cut into clusters of \\(2, 1, 1\\)"):
        threads.simulate(arch=HOPPER)


# -- memory of other blocks ------------------------------------------------------------------------------------
def exchange(p, dtype="float32", *, first=True, between=True, last=True, lanes=1):
    """Every block shows its tile to the next one of its cluster of four."""
    kind = as_dtype(dtype)
    out = p.tensor("out", (8, 64), dtype)
    value = Var("value", kind)
    with p.kernel(8, cluster=(4, 1, 1)) as (bx,):
        tile = p.shared("tile", (64,), dtype)
        if first:
            cluster_sync(p)
        p.store(tile, (p.thread,), cast(bx * 64 + p.thread, kind))
        if between:
            cluster_sync(p)
        p.call(cluster_load(kind), p.at(tile, p.thread), (bx % 4 + 1) % 4, result=value)
        if last:
            cluster_sync(p)
        p.store(out, (bx, p.thread), value)
    return out


@both_ways
@seeds
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "float64"])
def test_a_block_reads_what_another_wrote(threads, dtype, lazy, seed):
    exchange(threads, dtype, first=False)
    array = np.zeros((8, 64), dtype)
    threads.simulate(array, arch=HOPPER, lazy=lazy, seed=seed)
    blocks = np.arange(8)
    neighbors = blocks // 4 * 4 + (blocks % 4 + 1) % 4
    expected = (neighbors[:, None] * 64 + np.arange(64)).astype(dtype)
    np.testing.assert_array_equal(array, expected)


def test_memory_of_a_block_that_may_not_have_begun_is_told(threads):
    exchange(threads, first=False, between=False)
    error = fails(threads, SimulationError, zeros(8, 64), match="which may not have begun")
    assert "write T.cluster_sync() before the first access to another block's memory" == error.hint


def test_a_read_that_nothing_orders_is_a_race_between_blocks(threads):
    exchange(threads, between=False)
    fails(threads, SimulationError, zeros(8, 64), match="of one cluster, and nothing orders|before anything was written")


def test_the_two_sides_of_a_race_are_named_by_block(threads):
    value = Var("value", FLOAT32)
    with threads.kernel(2, cluster=PAIR, threads=32) as (bx,):
        tile = threads.shared("tile", (32,))
        threads.store(tile, (threads.thread,), 1)
        cluster_sync(threads)
        with threads.branch(bx == 0):
            threads.call(cluster_load(FLOAT32), threads.at(tile, threads.thread), 1, result=value)
        with threads.branch(bx == 1):
            threads.store(tile, (threads.thread,), 2)
        cluster_sync(threads)
    error = fails(threads, DataRace, match="of one cluster")
    assert "put a barrier of the cluster between the two" == error.hint
    assert all(f"by thread 0 of block {n}" in str(error) for n in range(2))


def test_memory_of_a_block_that_may_have_ended_is_told(threads):
    exchange(threads, last=False)
    for seed in range(4):
        with pytest.raises(SimulationError, match="which may have ended") as caught:
            threads.simulate(zeros(8, 64), arch=HOPPER, seed=seed)
        assert "write T.cluster_sync() before a block exits" == caught.value.hint


def test_there_is_no_block_beyond_the_cluster(threads):
    value = Var("value", FLOAT32)
    with threads.kernel(2, cluster=PAIR):
        tile = threads.shared("tile", (64,))
        cluster_sync(threads)
        threads.call(cluster_load(FLOAT32), threads.at(tile, 0), 2, result=value)
    fails(threads, SimulationError, match="block 2 of a cluster of 2: there is none")


@both_ways
@seeds
def test_a_block_writes_into_another(threads, lazy, seed):
    out = threads.tensor("out", (2, 64))
    with threads.kernel(2, cluster=PAIR) as (bx,):
        tile = threads.shared("tile", (64,))
        cluster_sync(threads)
        threads.call(cluster_store(FLOAT32), threads.at(tile, 63 - threads.thread), 1 - bx, cast(threads.thread, FLOAT32))
        cluster_sync(threads)
        threads.store(out, (bx, threads.thread), threads.load(tile, threads.thread))
    array = zeros(2, 64)
    threads.simulate(array, arch=HOPPER, lazy=lazy, seed=seed)
    np.testing.assert_array_equal(array, np.broadcast_to(63 - np.arange(64), (2, 64)))


# -- global memory -----------------------------------------------------------------------------------------------
def in_turn(p, cluster, barrier):
    """The second of two blocks reads what the first wrote to global memory."""
    a, out = p.tensor("A", (64,)), p.tensor("out", (64,))
    with p.kernel(2, cluster=cluster) as (bx,):
        with p.branch(bx == 0):
            p.store(a, (p.thread,), 3)
        if barrier:
            cluster_sync(p)
        with p.branch(bx == 1):
            p.store(out, (p.thread,), p.load(a, p.thread))


@seeds
def test_blocks_that_meet_see_what_they_wrote_to_global_memory(threads, seed):
    in_turn(threads, PAIR, True)
    out = zeros(64)
    threads.simulate(zeros(64), out, arch=HOPPER, seed=seed)
    assert (out == 3).all()


def test_blocks_that_do_not_meet_race(threads):
    in_turn(threads, PAIR, False)
    fails(threads, DataRace, zeros(64), zeros(64), match="of one cluster, and nothing orders")


def test_clusters_run_in_no_order(threads):
    a = threads.tensor("A", (64,))
    with threads.kernel(4, cluster=PAIR) as (bx,):
        cluster_sync(threads)
        with threads.branch(bx % 2 == 1):
            threads.store(a, (threads.thread,), cast(bx, FLOAT32))
    error = fails(threads, DataRace, zeros(64), match="of one launch, and blocks run in no order")
    assert "block 1" in str(error) and "block 3" in str(error)


# -- the barrier -------------------------------------------------------------------------------------------------
def test_warps_that_have_ended_keep_nobody_waiting(threads):
    out = threads.tensor("out", (2,))
    with threads.kernel(2, threads=96, cluster=PAIR) as (bx,):
        with threads.branch(threads.thread >= 32):
            cluster_sync(threads)
            with threads.branch(threads.thread == 32):
                threads.store(out, (bx,), 1)
    array = zeros(2)
    threads.simulate(array, arch=HOPPER)
    assert (array == 1).all()


def test_an_arrival_needs_a_wait_before_the_next(threads):
    with threads.kernel(2, cluster=PAIR):
        threads.call(CLUSTER_ARRIVE)
        threads.call(CLUSTER_ARRIVE)
    fails(threads, BarrierDivergence, match="warp [01] of block [01] arrives twice without waiting in between")


def test_a_wait_needs_an_arrival(threads):
    with threads.kernel(2, cluster=PAIR):
        threads.call(CLUSTER_WAIT)
    fails(threads, BarrierDivergence, match="waits without having arrived")


def test_whole_warps_arrive(threads):
    with threads.kernel(2, cluster=PAIR), threads.branch(threads.thread < 16):
        threads.call(CLUSTER_ARRIVE)
    fails(threads, BarrierDivergence, match="only lanes 0-15 of warp 0 reach it")


def test_blocks_that_wait_for_each_other_are_told_with_what_they_wait_for(threads):
    engine = Engine(threads)
    with threads.kernel(2, cluster=PAIR, threads=32) as (bx,):
        bar = engine.barriers("ready", 1)
        engine.init((bar, 1))
        with threads.branch(bx == 0):
            cluster_sync(threads)
        with threads.branch(bx == 1):
            engine.wait(bar, 0, 0)
            cluster_sync(threads)
    error = fails(threads, Deadlock, match="warps 0 of block 0, 0 of block 1 wait forever")
    told = [note.text for note in error.notes]
    assert "warp 0 of block 0 waits for the barrier of the cluster: warp 0 of block 1 has not arrived" in told
    assert any("the phase of parity 0 of mbarrier 'ready[0]'" in text for text in told)


@pytest.mark.parametrize("fence", [None, FENCE_DEVICE])
def test_a_relaxed_arrival_shows_what_a_fence_stands_behind(threads, fence):
    out = threads.tensor("out", (2, 64))
    value = Var("value", FLOAT32)
    with threads.kernel(2, cluster=PAIR) as (bx,):
        tile = threads.shared("tile", (64,))
        cluster_sync(threads)
        threads.store(tile, (threads.thread,), 7)
        if fence is not None:
            threads.call(fence)
        cluster_sync(threads, CLUSTER_ARRIVE_RELAXED)
        threads.call(cluster_load(FLOAT32), threads.at(tile, threads.thread), 1 - bx, result=value)
        cluster_sync(threads)
        threads.store(out, (bx, threads.thread), value)
    if fence is None:
        fails(threads, DataRace, zeros(2, 64), match="nothing orders the two")
    else:
        array = zeros(2, 64)
        threads.simulate(array, arch=HOPPER)
        assert (array == 7).all()


# -- barriers that count, in other blocks ------------------------------------------------------------------------
def init_for_all(p, *pairs):
    """Barriers that all blocks of the cluster may use afterwards, as cheaply as that goes."""
    with p.branch(p.thread == 0):
        for bar, arrivals in pairs:
            for i in range(bar.static_shape[0]):
                p.call(MBARRIER_INIT, p.at(bar, i), arrivals)
        p.call(FENCE_MBARRIER_INIT)
    p.call(CLUSTER_ARRIVE_RELAXED)
    p.call(CLUSTER_WAIT)


def handed_over(p, *, arrives=True, rounds=4):
    """Block 1 fills the tile of block 0 again and again, each time when block 0 says that it has read it."""
    engine, t, out = Engine(p), p.thread, p.tensor("out", (rounds, 64))
    with p.kernel(2, cluster=PAIR) as (bx,):
        tile, full, empty = p.shared("tile", (64,)), engine.barriers("full", 1), engine.barriers("empty", 1)
        init_for_all(p, (full, 64), (empty, 64))
        with p.branch(bx == 1), p.serial(0, rounds) as k:
            engine.wait(empty, 0, k % 2 ^ 1)
            p.call(cluster_store(FLOAT32), p.at(tile, t), 0, cast(k * 64 + t, FLOAT32))
            p.call(mbarrier_arrive_remote(release=True), p.at(full, 0), 0)
        with p.branch(bx == 0), p.serial(0, rounds) as k:
            engine.wait(full, 0, k % 2)
            p.store(out, (k, t), p.load(tile, 63 - t))
            if arrives:
                p.call(mbarrier_arrive_remote(), p.at(empty, 0), 1)
        cluster_sync(p, CLUSTER_ARRIVE_RELAXED)


@both_ways
@seeds
def test_blocks_hand_a_tile_over_and_back(threads, lazy, seed):
    handed_over(threads)
    out = zeros(4, 64)
    threads.simulate(out, arch=HOPPER, lazy=lazy, seed=seed)
    np.testing.assert_array_equal(out, np.arange(256).reshape(4, 64)[:, ::-1])


def test_a_barrier_of_another_block_that_nobody_arrives_at_is_a_deadlock(threads):
    handed_over(threads, arrives=False)
    error = fails(threads, Deadlock, zeros(4, 64), match="wait forever")
    assert any("'empty[0]': in its phase 0 0 of 64 arrivals have come" in note.text for note in error.notes)


def pushed(p, *, waits=True, size=64 * 16):
    """Every block pushes a vector per thread into the next one, whose barrier counts the bytes."""
    engine, t, kind = Engine(p), p.thread, as_dtype("float32x4")
    out = p.tensor("out", (4, 256))
    with p.kernel(4, cluster=(4, 1, 1)) as (bx,):
        tile, bar = p.shared("tile", (256,)), engine.barriers("here", 1)
        values = p.local("values", (4,))
        with p.branch(t == 0):
            p.call(MBARRIER_INIT, p.at(bar, 0), 1)
            p.call(FENCE_MBARRIER_INIT)
            engine.announce(bar, 0, size)
        p.call(CLUSTER_ARRIVE_RELAXED)
        p.call(CLUSTER_WAIT)
        for i in range(4):
            p.store(values, (i,), cast(bx * 1000 + t * 4 + i, FLOAT32))
        vector = p.bind("vector", Load(values, (as_expr(0),), kind))
        p.call(cluster_store_async(kind), p.at(tile, t * 4), (bx + 1) % 4, vector, p.at(bar, 0))
        if waits:
            engine.wait(bar, 0, 0)
            with p.serial(0, 4) as i:
                p.store(out, (bx, i * 64 + t), p.load(tile, i * 64 + t))


@both_ways
@seeds
def test_what_is_pushed_is_counted_where_it_arrives(threads, lazy, seed):
    pushed(threads)
    out = zeros(4, 256)
    threads.simulate(out, arch=HOPPER, lazy=lazy, seed=seed)
    expected = ((np.arange(4)[:, None] - 1) % 4 * 1000 + np.arange(256)).astype(np.float32)
    np.testing.assert_array_equal(out, expected)


def test_a_block_that_ends_before_what_is_pushed_has_come_is_told(threads):
    pushed(threads, waits=False)
    for seed in range(4):
        with pytest.raises(SimulationError, match="may have ended|the block ends while a copy"):
            threads.simulate(zeros(4, 256), arch=HOPPER, seed=seed)


def test_bytes_that_nobody_pushes_keep_the_phase_open(threads):
    pushed(threads, size=64 * 16 + 16)
    error = fails(threads, Deadlock, zeros(4, 256), match="wait forever")
    assert any("'here[0]'" in note.text for note in error.notes)


# -- multicast -----------------------------------------------------------------------------------------------------
def shared_tile(p, *, mask=3, last=True):
    """Each of two blocks loads half of a tile for both."""
    engine, t = Engine(p), p.thread
    a, out = p.tensor("A", (16, 16), "float16"), p.tensor("out", (2, 256), "float16")
    there = tensor_map(a, (16, 8), 32)
    with p.kernel(2, plan=plan_of(there), cluster=PAIR) as (bx,):
        tile, bar = p.shared("tile", (256,), "float16"), engine.barriers("full", 1)
        with p.branch(t == 0):
            p.call(MBARRIER_INIT, p.at(bar, 0), 1)
            p.call(FENCE_MBARRIER_INIT)
            engine.fence()
        p.call(CLUSTER_ARRIVE_RELAXED)
        p.call(CLUSTER_WAIT)
        with p.branch(t == 0):
            engine.announce(bar, 0, 512)
            load = tma_load(2, multicast=True)
            p.call(load, p.at(tile, bx * 128), there.var, p.at(bar, 0), 0, bx * 8, mask)
        engine.wait(bar, 0, 0)
        for i in range(4):
            p.store(out, (bx, i * 64 + t), p.load(tile, i * 64 + t))
        if last:
            cluster_sync(p, CLUSTER_ARRIVE_RELAXED)


def run_shared_tile(p, **options):
    array, out = np.arange(256, dtype=np.float16).reshape(16, 16), zeros(2, 256, dtype=np.float16)
    p.simulate(array, out, arch=HOPPER, **options)
    return array, out


@both_ways
@seeds
@pytest.mark.parametrize("last", [True, False])
def test_a_multicast_brings_a_box_to_all_blocks_of_its_mask(threads, lazy, seed, last):
    shared_tile(threads, last=last)  # a block that has all that others bring may end
    array, out = run_shared_tile(threads, lazy=lazy, seed=seed)
    np.testing.assert_array_equal(np.sort(out, axis=1), np.sort(np.broadcast_to(array.ravel(), (2, 256)), axis=1))
    np.testing.assert_array_equal(out[0], out[1])


def test_a_block_that_the_mask_leaves_out_waits_in_vain(threads):
    shared_tile(threads, mask=1)
    error = fails(
        threads, Deadlock, np.zeros((16, 16), np.float16), np.zeros((2, 256), np.float16), match="wait forever"
    )
    assert any("of block 1 waits for the phase of parity 0 of mbarrier 'full[0]'" in note.text for note in error.notes)


def test_a_mask_that_names_no_block_of_the_cluster_is_told(threads):
    shared_tile(threads, mask=7)
    fails(
        threads, SimulationError, np.zeros((16, 16), np.float16), np.zeros((2, 256), np.float16),
        match="block 2 of a cluster of 2: there is none",
    )  # fmt: skip
