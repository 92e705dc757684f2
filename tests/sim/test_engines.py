"""Programs of threads with the copy engine: what they compute, and how each of their bugs is told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_copies import HOPPER, Engine, image_of_box, plan_of, tensor_map

from tilelang.dtypes import SCALARS
from tilelang.errors import (
    DataRace,
    Deadlock,
    MisalignedAccess,
    MissingProxyFence,
    OutOfBounds,
    ReadBeforeWrite,
    SimulationError,
)
from tilelang.ir.expr import Var
from tilelang.isa.nvidia.cache_policy import l2_policy
from tilelang.isa.nvidia.fence import FENCE_PROXY_ASYNC_GLOBAL
from tilelang.isa.nvidia.sync import SYNC_WARP
from tilelang.isa.nvidia.tma import (
    TMA_PREFETCH_MAP,
    TMA_STORE_COMMIT,
    bulk_load,
    bulk_store,
    tma_load,
    tma_reduce,
    tma_store,
    tma_store_wait,
)
from tilelang.sim.counters import Counters

both_ways = pytest.mark.parametrize("lazy", [True, False])
seeds = pytest.mark.parametrize("seed", range(3))


def halves(*shape):
    return np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(np.float16)


# -- one box ---------------------------------------------------------------------------------------------------------
def box_there_and_back(programs, case, **options):
    """A box is loaded and looked at, and stored at the same place of another tensor."""
    array, box, at, swizzle, skip = case
    p = programs[1]()
    engine, elements, size = Engine(p), int(np.prod(box)), array.dtype.itemsize
    dtype = str(array.dtype)
    a, image = p.tensor("A", array.shape, dtype), p.tensor("image", (elements,), dtype)
    out = p.tensor("out", array.shape, dtype)
    there, back = tensor_map(a, box, swizzle), tensor_map(out, box, swizzle)
    with p.kernel(1, plan=plan_of(there, back)):
        tile, bar = p.shared("tile", (skip // size + elements,), dtype), engine.barriers("full", 1)
        engine.init((bar, 1))
        with engine.one():
            p.call(TMA_PREFETCH_MAP, there.var)
            engine.announce(bar, 0, elements * size)
            p.call(tma_load(len(box)), p.at(tile, skip // size), there.var, p.at(bar, 0), *at)
        engine.wait(bar, 0, 0)
        with p.serial(0, -(-elements // 64)) as i, p.branch(i * 64 + p.thread < elements):
            p.store(image, (i * 64 + p.thread,), p.load(tile, skip // size + i * 64 + p.thread))
        with engine.one():
            p.call(tma_store(len(box)), back.var, p.at(tile, skip // size), *at)
            p.call(TMA_STORE_COMMIT)
            p.call(tma_store_wait(0))
    seen, stored = np.zeros(elements, array.dtype), np.zeros_like(array)
    p.simulate(array, seen, stored, arch=HOPPER, **options)
    return seen, stored


@st.composite
def boxes(draw):
    swizzle = draw(st.sampled_from([0, 32, 64, 128]))
    rank = draw(st.integers(1, 5))
    dtype = np.dtype(draw(st.sampled_from(["uint8", "float16", "float32"])))
    box = [(swizzle or 48) // dtype.itemsize, *(draw(st.integers(1, (8, 4, 2, 2)[i])) for i in range(rank - 1))]
    dims = [draw(st.integers(1, 3)) * 16 // dtype.itemsize * 3, *(draw(st.integers(1, 7)) for _ in range(rank - 1))]
    at = [draw(st.integers(-side, dim)) for side, dim in zip(box, dims, strict=True)]
    array = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 200, dims[::-1]).astype(dtype)
    return array, box, at, swizzle, draw(st.integers(0, 9)) * 128


@settings(max_examples=25, deadline=None)
@given(boxes(), st.booleans())
def test_boxes_arrive_and_return_where_the_formula_says(programs, case, lazy):
    array, box, at, swizzle, skip = case
    seen, stored = box_there_and_back(programs, case, lazy=lazy)
    expected = image_of_box(array, at, box, swizzle, skip)
    np.testing.assert_array_equal(seen.view(np.uint8), expected)
    kept = np.zeros(array.shape, bool)
    kept[tuple(slice(max(0, a), max(0, a + side)) for a, side in zip(at[::-1], box[::-1], strict=True))] = True
    np.testing.assert_array_equal(stored, np.where(kept, array, 0))


# -- a ring ----------------------------------------------------------------------------------------------------------
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
    assert f"{ROWS * 32 + 16} bytes have not come ({ROWS * 32} are under way)" in str(error.value)


@both_ways
def test_bytes_that_nobody_announced_are_told(threads, lazy):
    ring(threads, size=ROWS * 32 - 16)
    with pytest.raises(Deadlock, match="bytes"):
        run_ring(threads, lazy=lazy)


# -- stores ----------------------------------------------------------------------------------------------------------
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


# -- fences elsewhere ------------------------------------------------------------------------------------------------
def filled(p, *, fence, first=True):
    """Threads write a tile by ordinary stores, and then a box is loaded into it."""
    engine, t = Engine(p), p.thread
    a, out = p.tensor("A", (64,), "float32"), p.tensor("out", (64,), "float32")
    there = tensor_map(a, (64,))
    with p.kernel(1, plan=plan_of(there)):
        tile, bar = p.shared("tile", (64,), "float32"), engine.barriers("full", 1)
        engine.init((bar, 1), fence=first)
        p.store(tile, (t,), 0)
        if fence:
            engine.fence()
        p.sync()
        with engine.one():
            engine.announce(bar, 0, 256)
            p.call(tma_load(1), p.at(tile, 0), there.var, p.at(bar, 0), 0)
        engine.wait(bar, 0, 0)
        p.store(out, (t,), p.load(tile, t))


def test_a_load_over_what_threads_wrote_needs_their_fence(threads, programs):
    filled(threads, fence=True)
    out = np.zeros(64, np.float32)
    threads.simulate(np.arange(64, dtype=np.float32), out, arch=HOPPER)
    np.testing.assert_array_equal(out, np.arange(64))
    other = programs[1]()
    filled(other, fence=False)
    with pytest.raises(MissingProxyFence, match="is written by an engine"):
        other.simulate(np.zeros(64, np.float32), np.zeros(64, np.float32), arch=HOPPER)


def test_a_barrier_is_initialized_before_a_fence(threads):
    filled(threads, fence=False, first=False)
    with pytest.raises(MissingProxyFence) as error:
        threads.simulate(np.zeros(64, np.float32), np.zeros(64, np.float32), arch=HOPPER)
    assert error.value.message.startswith(("full[0] was written by thread 0 and is updated", "tile["))


@pytest.mark.parametrize("fence", [False, True])
def test_what_a_block_wrote_to_global_memory_needs_a_fence_as_well(threads, fence):
    p, engine, t = threads, Engine(threads), threads.thread
    a, out = p.tensor("A", (64,), "float32"), p.tensor("out", (64,), "float32")
    there = tensor_map(a, (64,))
    with p.kernel(1, plan=plan_of(there)):
        tile, bar = p.shared("tile", (64,), "float32"), engine.barriers("full", 1)
        engine.init((bar, 1))
        p.store(a, (t,), t + 1)
        if fence:
            p.call(FENCE_PROXY_ASYNC_GLOBAL)
        p.sync()
        with engine.one():
            engine.announce(bar, 0, 256)
            p.call(tma_load(1), p.at(tile, 0), there.var, p.at(bar, 0), 0)
        engine.wait(bar, 0, 0)
        p.store(out, (t,), p.load(tile, t))
    out = np.zeros(64, np.float32)
    if not fence:
        with pytest.raises(MissingProxyFence, match=r"A\[0\] was written by thread 0 and is read by an engine"):
            p.simulate(np.zeros(64, np.float32), out, arch=HOPPER)
        return
    p.simulate(np.zeros(64, np.float32), out, arch=HOPPER)
    np.testing.assert_array_equal(out, np.arange(64) + 1)


# -- folds -----------------------------------------------------------------------------------------------------------
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


# -- runs of bytes, hints --------------------------------------------------------------------------------------------
@both_ways
def test_runs_of_bytes_and_policies(threads, lazy):
    p, engine = threads, Engine(threads)
    a, out = p.tensor("A", (64,), "float32"), p.tensor("out", (64,), "float32")
    policy = Var("policy", SCALARS["uint64"])
    with p.kernel(1):
        tile, bar = p.shared("tile", (32,), "float32"), engine.barriers("full", 1)
        engine.init((bar, 1))
        with engine.one():
            p.call(l2_policy("evict_first"), result=policy)
            engine.announce(bar, 0, 128)
            p.call(bulk_load(hint=True), p.at(tile, 0), p.at(a, 8), 128, p.at(bar, 0), policy)
            engine.wait(bar, 0, 0)
            p.call_on(bulk_store(), (p.at(out, 32), p.at(tile, 0), 128), writes=(p.region(out),))
            p.call(TMA_STORE_COMMIT)
            p.call(tma_store_wait(0))
    result = np.zeros(64, np.float32)
    p.simulate(np.arange(64, dtype=np.float32), result, arch=HOPPER, lazy=lazy)
    np.testing.assert_array_equal(result, [0] * 32 + list(range(8, 40)))


def test_traffic_of_engines_is_counted(programs):
    report = Counters()
    box_there_and_back(programs, (halves(8, 16), (16, 8), (0, 0), 0, 0), report=report)
    assert (1, 256, 8) == (report.traffic["bulk load"].requests, report.traffic["bulk load"].bytes,
                           report.traffic["bulk load"].transactions)  # fmt: skip
    assert 256 == report.traffic["bulk store"].bytes
    assert 1 == report.instructions["tma_load_2d"]


# -- misuse ----------------------------------------------------------------------------------------------------------
def misused(p, box=(16, 4), rank=2, place=0, swizzle=0, room=64, shape=(8, 16), multicast=None, **map_options):
    engine = Engine(p)
    a = p.tensor("A", shape, "float16")
    there = tensor_map(a, box, swizzle, **map_options)
    with p.kernel(1, plan=plan_of(there)):
        tile, bar = p.shared("tile", (room,), "float16"), engine.barriers("full", 1)
        engine.init((bar, 1))
        with engine.one():
            engine.announce(bar, 0, 2 * int(np.prod(box)))
            mask = () if multicast is None else (multicast,)
            load = tma_load(rank, multicast=multicast is not None)
            p.call(load, p.at(tile, place), there.var, p.at(bar, 0), *[0] * rank, *mask)
        engine.wait(bar, 0, 0)
    return halves(*shape)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"place": 8, "room": 128}, MisalignedAccess, "byte 16 of shared memory, which is no multiple of 128"),
        ({"place": 64, "room": 127}, OutOfBounds, "'tile': an engine accesses bytes 128 to 255, but it has 254"),
        ({"rank": 3}, SimulationError, "the map of 'A' has 2 dimensions"),
        ({"swizzle": 16}, SimulationError, "the map of 'A' for copies of (16, 4): a swizzle spans 0, 32, 64"),
        ({"box": (32, 2), "swizzle": 32}, SimulationError, "fit into the span of its swizzle"),
        ({"shape": (8, 12), "box": (8, 4)}, SimulationError, "strides are multiples of 16 bytes"),
        ({"dims": (16, 9)}, OutOfBounds, "'A': an engine accesses bytes"),
        ({"multicast": 2}, SimulationError, "block 1 of a cluster of 1"),
    ],
)
def test_misuse_is_told(threads, change, kind, words):
    if "dims" in change:
        change = {**change, "box": (16, 9), "room": 256}
    array = misused(threads, **change)
    with pytest.raises(kind) as error:
        threads.simulate(array, arch=HOPPER)
    assert words in error.value.message


def test_a_multicast_to_the_block_itself_is_a_load(threads):
    array = misused(threads, multicast=1)
    threads.simulate(array, arch=HOPPER)


def unwaited(p, waits):
    engine, a = Engine(p), p.tensor("A", (64,), "float16")
    there = tensor_map(a, (64,))
    with p.kernel(2, plan=plan_of(there)):
        tile, bar = p.shared("tile", (64,), "float16"), engine.barriers("full", 1)
        engine.init((bar, 1))
        with engine.one():
            engine.announce(bar, 0, 128)
            p.call(tma_load(1), p.at(tile, 0), there.var, p.at(bar, 0), 0)
            if waits:
                engine.wait(bar, 0, 0)


def test_a_block_may_not_end_before_what_fills_its_memory(threads):
    unwaited(threads, False)
    with pytest.raises(SimulationError, match="'tile': the block ends while a copy that thread 0 started may still wri"):
        threads.simulate(halves(64), arch=HOPPER)


@both_ways
def test_one_thread_that_waits_for_a_copy_is_enough_for_a_block_to_end(threads, lazy):
    unwaited(threads, True)
    threads.simulate(halves(64), arch=HOPPER, lazy=lazy)


# -- phases ----------------------------------------------------------------------------------------------------------
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
    words = r"'full\[0\]' may begin before the phase of parity 0 is complete|'?tile\[0\]'? is read"
    with pytest.raises(SimulationError, match=words):
        threads.simulate(np.zeros(1, np.float32), arch=HOPPER, lazy=lazy, seed=seed)


@both_ways
@seeds
def test_whoever_knows_of_the_phase_before_may_wait_for_the_next(threads, lazy, seed):
    in_turn(threads, told=True)
    out = np.zeros(1, np.float32)
    threads.simulate(out, arch=HOPPER, lazy=lazy, seed=seed)
    assert out[0] == 5


def meetings(p, count):
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
    meetings(threads, 32)
    with pytest.raises(DataRace, match=r"the arrival at 'bar\[0\]' in its phase . may come before phase . is complete"):
        threads.simulate(arch=HOPPER, lazy=lazy, seed=seed)


@both_ways
@seeds
def test_those_that_wait_for_each_phase_may_arrive_for_the_next(threads, lazy, seed):
    meetings(threads, 64)
    threads.simulate(arch=HOPPER, lazy=lazy, seed=seed)
