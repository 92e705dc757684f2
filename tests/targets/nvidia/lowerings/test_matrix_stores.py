"""Results go to shared tiles by matrix stores wherever lanes hold matrices, and arrive as by stores of single elements."""

import itertools
import math

import numpy as np
import pytest
from gpu import assert_simulates, lower_func, simulate_func
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_accumulators import accumulator, blank, through_shared

import tilelang.language as T
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import CallStmt, For, Launch, Store
from tilelang.ir.visit import variables_of, walk
from tilelang.layout.shared_memory import padded, row_major
from tilelang.layout.thread_values import digit
from tilelang.layout.xor_swizzle import MODES, swizzled
from tilelang.sim.counters import Counters
from tilelang.targets.nvidia.isa.ldmatrix import stmatrix

HOPPER = "sm_90a"
STORES = [stmatrix(count, trans) for count in (2, 4) for trans in (False, True)]


def used(func, arch=HOPPER):
    """The matrix stores of the program of a thread."""
    return [s.routine for s in walk(lower_func(func, arch).body) if isinstance(s, CallStmt) and s.routine in STORES]


def check(func, **options):
    assert_simulates(func, *blank(func), arch=HOPPER, rtol=0, atol=0, **options)


def ints(*shapes):
    return [np.random.default_rng(1).integers(-8, 9, shape).astype(np.float32) for shape in shapes]


# -- where they are used -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("source", ["float32", "same"])
def test_accumulators_go_four_matrices_at_a_time(dtype, source):
    func = through_shared(accumulator(), dtype, dtype if source == "same" else source)
    assert [stmatrix(4)] == used(func)
    check(func, seeds=(0,))


def test_tiles_that_lie_the_other_way_are_stored_transposed():
    func = through_shared(accumulator(turned=True))
    assert [stmatrix(4, True)] == used(func)
    check(func)


@pytest.mark.parametrize(("blocks", "count"), [((1, 2), 2), ((3, 2), 2), ((2, 3), 2), ((1, 6), 2), ((2, 14), 4), ((4, 1), 4)])
def test_instructions_take_as_many_matrices_as_blocks_come_in(blocks, count):
    func = through_shared(accumulator(blocks, (1, 2)))
    assert [stmatrix(count)] == used(func)
    check(func, seeds=(0,))


def test_they_meet_no_bank_conflicts_where_tiles_are_swizzled():
    func = through_shared(accumulator((2, 8)), layout=swizzled((32, 128), 16, 128))
    report = Counters()
    simulate_func(func, blank(func), HOPPER, report=report)
    stores = report.traffic["shared store"]
    assert (0, 32 * 128 * 2) == (stores.extra, stores.bytes)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_registers_that_are_stored_as_they_are_follow_each_other(order):
    func = through_shared(accumulator((2, 4), (2, 2), order=order), source="float16")
    program = list(walk(lower_func(func, HOPPER).body))
    (fill,) = (s for s in program if isinstance(s, Store) and s.buffer.name == "S_r")
    loops = {s.var: int_const(s.stop) for s in program if isinstance(s, For)}
    moved = [var for var in loops if var in variables_of(fill.indices[0])]
    for step in itertools.product(*(range(loops[var]) for var in moved)):
        env = {**dict.fromkeys(loops, 0), **dict(zip(moved, step, strict=True))}
        assert evaluate(fill.indices[0], env) == evaluate(fill.value.indices[0], env)
    check(func, seeds=(0,))


def test_what_is_done_with_sums_on_their_way_is_done_before():
    held = accumulator((2, 4), (4, 1))

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), bias: T.Tensor((32,), "float32"), B: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 32), "float16")
            F = T.alloc_fragment((64, 32), "float32")
            T.annotate_layout({F: T.Fragment(held.shape, held.owner)})
            T.copy(A, F)
            for i, j in T.Parallel(64, 32):
                S[i, j] = T.max(F[i, j] * 2 + bias[j], 0)
            T.copy(S, B)

    assert [stmatrix(4)] == used(main)
    assert_simulates(main, *ints((64, 32)), *ints((32,)), np.zeros((64, 32), np.float16), arch=HOPPER)


def test_parts_of_a_fragment_follow_each_other_through_one_tile():
    held = accumulator((2, 8), (4, 1))

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 32), "float16")
            F = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({F: T.Fragment(held.shape, held.owner)})
            T.copy(A, F)
            T.copy(F[:, 0:32], S)
            T.copy(S, B[0, 0])
            T.copy(F[:, 32:64], S)
            T.copy(S, B[0, 32])

    assert [stmatrix(4)] * 2 == used(main)
    check(main)


def test_a_loop_that_reads_rows_of_the_tile_waits_for_whole_warps():
    held = accumulator((1, 2), (1, 1))

    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8, 16), "float16")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((8, 16), "float16")
            F = T.alloc_fragment((8, 16), "float32")
            G = T.alloc_fragment((8, 16), "float16")
            T.annotate_layout({b: T.Fragment(held.shape, held.owner) for b in (F, G)})
            T.copy(A, F)
            T.copy(F, S)
            T.copy(S, G)  # by the lanes whose elements they were
            T.copy(G, B)

    assert [stmatrix(2)] == used(main)
    check(main)


# -- where they are not --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "func",
    [
        through_shared(accumulator(), "float32"),
        through_shared(accumulator(), "float16", margin=(0, 4)),  # rows that begin amid 16 bytes
        through_shared(accumulator((1, 1))),  # one matrix, which a store of single elements brings as fast
        through_shared(accumulator((2, 2), lanes=(digit(8, 1, 0), digit(4, 0, 2)))),  # not as matrices want it
        through_shared(accumulator(), layout=padded((32, 64), 4)),
    ],
    ids=["wide", "unaligned", "single", "other lanes", "torn rows"],
)
def test_other_tiles_are_stored_element_by_element(func):
    assert not used(func)
    check(func, seeds=(0,))


def test_other_gpus_store_element_by_element():
    assert not used(through_shared(accumulator()), "sm_80")


def test_a_tile_that_is_updated_in_place_is_read_and_written_by_the_same_lanes():
    held = accumulator((2, 4), (4, 1))

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 32), "float16")
            F = T.alloc_fragment((64, 32), "float32")
            T.annotate_layout({F: T.Fragment(held.shape, held.owner)})
            T.copy(A, F)
            T.clear(S)
            for i, j in T.Parallel(64, 32):
                S[i, j] = S[i, j] + F[i, j]
            T.copy(S, B)

    assert not used(main)
    check(main, seeds=(0,))


# -- any of them ---------------------------------------------------------------------------------------------------
@st.composite
def tiles(draw):
    warps = draw(st.sampled_from([(1, 1), (2, 1), (4, 1), (1, 2), (2, 2)]))
    blocks = draw(st.tuples(st.integers(1, 4), st.integers(1, 6)))
    turned = draw(st.booleans())
    held = accumulator(blocks, warps, turned=turned, order=draw(st.permutations(range(3))))
    margin = (draw(st.integers(0, 3)), 8 * draw(st.integers(0, 2)))
    wide = (held.shape[0] + margin[0], held.shape[1] + margin[1])
    layouts = [None, row_major(wide), padded(wide, 8), *(swizzled(wide, 16, m) for m in MODES if wide[1] * 2 % m == 0)]
    source, dtype = draw(st.sampled_from([("float32", "float16"), ("bfloat16", "bfloat16"), ("int32", "int16")]))
    versions = draw(st.sampled_from([0, 2]))
    layout = None if versions else draw(st.sampled_from(layouts))
    return through_shared(held, dtype, source, layout, margin, versions), math.prod(blocks)


@settings(max_examples=12, deadline=None)
@given(tiles(), st.booleans(), st.integers(0, 2))
def test_any_tile_arrives(made, lazy, seed):
    func, matrices = made
    a, b = blank(func)
    if a.dtype == np.int32:
        a[...] = np.random.default_rng(seed).integers(-1000, 1000, a.shape)
    assert bool(used(func)) == (matrices % 2 == 0)
    _, got = simulate_func(func, (a, b), HOPPER, lazy, seed)
    np.testing.assert_array_equal(a.astype(got.dtype), got)


def test_what_was_decided_is_noted():
    (launch,) = (s for s in walk(lower_func(through_shared(accumulator()), HOPPER).body) if isinstance(s, Launch))
    assert "'S' is written by stores of 8x8 matrices" in [note.text for note in launch.plan.notes]
