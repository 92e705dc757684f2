"""Boxes and runs of bytes that the copy engine brings: what arrives, and how misuse is told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_copies import HOPPER, Engine, box_again, first_stored, halves, image_of_box, plan_of, tensor_map

from tilelang.dtypes import SCALARS
from tilelang.errors import MisalignedAccess, OutOfBounds, SimulationError
from tilelang.ir.expr import Var
from tilelang.ir.scalar import round_tf32
from tilelang.sim.counters import Counters
from tilelang.targets.nvidia.isa.cache_policy import l2_policy
from tilelang.targets.nvidia.isa.tma import (
    TMA_PREFETCH_MAP,
    TMA_STORE_COMMIT,
    bulk_load,
    bulk_store,
    tma_load,
    tma_store,
    tma_store_wait,
)

both_ways = pytest.mark.parametrize("lazy", [True, False])


# -- one box ----------------------------------------------------------------------------------------------------------
def box_there_and_back(programs, case, rounds=False, **options):
    """A box is loaded and looked at, and stored at the same place of another tensor."""
    array, box, at, swizzle, skip = case
    p = programs[1]()
    engine, elements, size = Engine(p), int(np.prod(box)), array.dtype.itemsize
    dtype = str(array.dtype)
    a, image = p.tensor("A", array.shape, dtype), p.tensor("image", (elements,), dtype)
    out = p.tensor("out", array.shape, dtype)
    there, back = tensor_map(a, box, swizzle, rounds=rounds), tensor_map(out, box, swizzle)
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
            p.call(tma_store(len(box)), back.var, p.at(tile, skip // size), *first_stored(at))
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
    at[0] -= at[0] % (16 // dtype.itemsize)
    array = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 200, dims[::-1]).astype(dtype)
    return array, box, at, swizzle, draw(st.integers(0, 9)) * 128


@both_ways
def test_a_map_rounds_to_tf32(programs, lazy):
    bits = np.arange(64, dtype=np.uint32) * 0x800 + 0x3F800000
    bits[:5] = [0x7F7FFFFF, 0x7F800001, 0xFF800000, 0x80001001, 0x7FFFFFFF]
    array = bits.view(np.float32).reshape(4, 16)
    seen, stored = box_there_and_back(programs, (array, (16, 5), (0, 0), 0, 0), rounds=True, lazy=lazy)
    expected = round_tf32(array)
    expected.view(np.uint32)[np.isnan(expected)] = 0x7FFFE000  # as on an H200
    assert (expected.view(np.uint32) != bits.reshape(4, 16)).any()
    np.testing.assert_array_equal(expected.view(np.uint32), stored.view(np.uint32))
    np.testing.assert_array_equal([*expected.ravel().view(np.uint32), *[0] * 16], seen.view(np.uint32))


@settings(max_examples=25, deadline=None)
@given(boxes(), st.booleans())
def test_boxes_arrive_and_return_where_the_formula_says(programs, case, lazy):
    array, box, at, swizzle, skip = case
    seen, stored = box_there_and_back(programs, case, lazy=lazy)
    expected = image_of_box(array, at, box, swizzle, skip)
    np.testing.assert_array_equal(seen.view(np.uint8), expected)
    np.testing.assert_array_equal(stored, box_again(array, at, box).values)


# -- runs of bytes, hints ---------------------------------------------------------------------------------------------
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


# -- misuse -----------------------------------------------------------------------------------------------------------
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
        ({"place": 64, "room": 127}, OutOfBounds, "'tile': a copy accesses bytes 128 to 255, but it has 254"),
        ({"rank": 3}, SimulationError, "the map of 'A' has 2 dimensions"),
        ({"swizzle": 16}, SimulationError, "the map of 'A' for copies of (16, 4): a swizzle spans 0, 32, 64"),
        ({"box": (32, 2), "swizzle": 32}, SimulationError, "fit into the span of its swizzle"),
        ({"shape": (8, 12), "box": (8, 4)}, SimulationError, "strides are multiples of 16 bytes"),
        ({"dims": (16, 9)}, OutOfBounds, "'A': a copy accesses bytes"),
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
