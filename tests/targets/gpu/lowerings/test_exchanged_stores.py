"""Threads that would meet in banks of shared memory store their elements in another order, and the same arrives."""

import numpy as np
from gpu import assert_simulates, lower_func, simulate_func
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_accumulators import accumulator, blank, through_shared

import tilelang.language as T
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.layout.shared_memory import padded, row_major
from tilelang.layout.xor_swizzle import MODES, swizzled
from tilelang.sim.counters import Counters

HOPPER = "sm_90a"


def is_exchanged(func):
    (launch,) = (s for s in walk(lower_func(func, HOPPER).body) if isinstance(s, Launch))
    return any("the other way round" in note.text for note in launch.plan.notes)


def lost(func):
    """Wavefronts that stores lose to bank conflicts, and the bytes that they store."""
    report = Counters()
    simulate_func(func, blank(func), HOPPER, report=report)
    stores = report.traffic["shared store"]
    return stores.extra, stores.bytes


def held_in_lines(blocks=(2, 4), warps=(2, 1), mode=128, **options):
    held = accumulator(blocks, warps)
    return through_shared(held, "float32", layout=swizzled(held.shape, 32, mode), **options)


def test_accumulators_of_float32_lose_nothing_in_swizzled_lines():
    func = held_in_lines()
    assert is_exchanged(func)
    assert (0, 32 * 32 * 4) == lost(func)
    assert_simulates(func, *blank(func), arch=HOPPER, rtol=0, atol=0)


def test_what_is_done_with_sums_on_their_way_is_done_before():
    held = accumulator((2, 4), (4, 1))

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), bias: T.Tensor((32,), "float32"), B: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 32), "float32")
            F = T.alloc_fragment((64, 32), "float32")
            T.annotate_layout({F: T.Fragment(held.shape, held.owner), S: swizzled((64, 32), 32, 128)})
            T.copy(A, F)
            for i, j in T.Parallel(64, 32):
                column = j
                S[i, column] = F[i, j] * 2 + bias[column]
            T.copy(S, B)

    assert is_exchanged(main)
    drawn = [np.random.default_rng(n).integers(-8, 9, shape).astype(np.float32) for n, shape in enumerate(((64, 32), (32,)))]
    assert_simulates(main, *drawn, np.zeros((64, 32), np.float32), arch=HOPPER)


def test_stores_that_lose_nothing_stay_in_order():
    func = through_shared(accumulator((2, 1), (2, 1)), "float32")  # rows of 32 bytes
    assert not is_exchanged(func)
    assert 0 == lost(func)[0]


def test_stores_that_no_exchange_helps_stay_in_order():
    held = accumulator((2, 1), (2, 1))
    func = through_shared(held, "float32", layout=padded(held.shape, 8))  # every other row begins in the same bank
    assert not is_exchanged(func)
    assert lost(func)[0]


@settings(max_examples=12, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.sampled_from([4, 8])), st.sampled_from([(1, 1), (2, 1), (1, 2)]),
    st.sampled_from([row_major, *(lambda shape, mode=mode: swizzled(shape, 32, mode) for mode in MODES)]),
    st.sampled_from([0, 2]),
)  # fmt: skip
def test_the_same_arrives_whatever_the_layout(blocks, warps, layout, versions):
    held = accumulator(blocks, warps)
    made = layout(held.shape)
    func = through_shared(held, "float32", layout=made.expand(versions) if versions else made, versions=versions)
    assert_simulates(func, *blank(func), arch=HOPPER, rtol=0, atol=0)
