"""Vector accesses: which are made, how wide, and that they mean the same."""

import dataclasses

import numpy as np
import pytest
from harness import run_reference_on_copies, simulate_on_copies
from loops import buffer, exprs, load, store
from simt import SM80, TO_ACCESSES, assert_threads_agree, ints

import tilelang
import tilelang.language as T
from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, as_expr, cast, const, select
from tilelang.ir.func import Level, PrimFunc, TensorParam
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import CallStmt, For, ForKind, If, Launch, LaunchHints, Seq, Store
from tilelang.ir.verify import verify
from tilelang.ir.visit import expressions, walk, walk_expr
from tilelang.layout.layout import Layout
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.thread.vectorize_accesses import vectorize_accesses
from tilelang.targets.nvidia.isa.cp_async import ASYNC_COPIES

THREAD, BX, W, N = (Var(name, INT32, index=True) for name in ("thread", "bx", "w", "n"))
A, B = (buffer(name, 64, 64, scope=Scope.GLOBAL) for name in "AB")
S = buffer("S", 64, 64, scope=Scope.SHARED)


def kernel(*body, threads=32, plan=LaunchPlan(), hints=LaunchHints(), params=(A, B)):
    launch = Launch((BX,), exprs(4), (threads, 1, 1), Seq(body), hints, THREAD, plan)
    return PrimFunc("f", tuple(TensorParam(p) for p in params), launch, Level.THREAD)


def lanes(trips, *body):
    return For(W, as_expr(0), as_expr(trips), 1, ForKind.VECTORIZED, body[0] if len(body) == 1 else Seq(body))


def vectorized(*body, **options):
    return vectorize_accesses(ASYNC_COPIES).run(kernel(*body, **options), PassContext())


def widths(func):
    """Lanes of the vector accesses to memory that threads share: of loads, and of stores."""
    loads, stores = [], []
    for stmt in walk(func.body):
        if isinstance(stmt, Store) and stmt.buffer.scope is not Scope.LOCAL and stmt.value.dtype.lanes > 1:
            stores.append(stmt.value.dtype.lanes)
        for node in (e for root in expressions(stmt) for e in walk_expr(root)):
            if isinstance(node, Load) and node.buffer.scope is not Scope.LOCAL and node.dtype.lanes > 1:
                loads.append(node.dtype.lanes)
    return loads, stores


def at(row, column):
    return row, column * 4 + W


def test_a_copy_of_neighbors_is_one_access():
    func = vectorized(lanes(4, store(B, *at(BX, THREAD % 16), load(A, *at(BX, THREAD % 16)))))
    assert ([4], [4]) == widths(func)
    assert [] == [s for s in walk(func.body) if isinstance(s, For)]


def test_longer_runs_are_cut_at_16_bytes():
    wide = lanes(16, store(B, BX, THREAD % 4 * 16 + W, load(A, BX, THREAD % 4 * 16 + W)))
    assert ([4] * 4, [4] * 4) == widths(vectorized(wide))


def late(*row_and_column_and_value):
    return dataclasses.replace(store(S, *row_and_column_and_value), asynchronous=True)


def copied(*body):
    """The asynchronous copies: their bytes, and the text of what decides whether they read."""
    calls = [s for s in walk(vectorized(*body).body) if isinstance(s, CallStmt)]
    return [(int(s.routine.name.removeprefix("cp_async_")), to_text(s.args[2])) for s in calls]


def test_asynchronous_stores_become_copies_in_the_background():
    table = Buffer("table", exprs(64), INT32, Scope.GLOBAL)
    row = Load(table, exprs(BX), INT32)
    assert [(16, "True")] == copied(lanes(4, late(*at(BX, THREAD % 16), load(A, *at(BX, THREAD % 16)))))
    assert [(8, "True")] * 2 == copied(lanes(4, late(BX, N * 2 + W, load(A, BX, N * 2 + W))))
    assert [(4, "True")] * 2 == copied(lanes(2, late(BX, N + W, load(A, BX, N + W))))
    assert [(4, "True")] == copied(late(BX, N, load(A, BX, N)))  # without a loop over neighbors
    where_chosen = select(row > 3, load(A, row, THREAD % 16 * 4 + W), const(0.0, FLOAT32))
    assert [(16, "table[bx] > 3")] == copied(lanes(4, late(*at(BX, THREAD % 16), where_chosen)))
    otherwise = select(row > 3, const(0.0, FLOAT32), load(A, row, THREAD % 16 * 4 + W))
    assert [(16, "not table[bx] > 3")] == copied(lanes(4, late(*at(BX, THREAD % 16), otherwise)))


def test_asynchronous_stores_that_no_instruction_does_are_done_at_once():
    half = as_dtype("float16")
    source, tile = Buffer("h", exprs(64, 63), half, Scope.GLOBAL), Buffer("t", exprs(64, 64), half, Scope.SHARED)
    body = Store(tile, exprs(BX, W), Load(source, exprs(BX, W), half), asynchronous=True)
    func = vectorized(lanes(4, body))  # rows of 126 bytes
    assert [] == [s for s in walk(func.body) if isinstance(s, CallStmt)]
    assert any(isinstance(s, Store) and s.buffer is tile for s in walk(func.body))
    within = select(W > 1, load(A, BX, W), const(0.0, FLOAT32))  # differs between neighbors
    assert [] == copied(lanes(4, late(BX, W, within)))


def test_values_are_computed_lane_by_lane_between_the_accesses():
    func = vectorized(lanes(4, store(B, *at(BX, THREAD % 16), load(A, *at(BX, THREAD % 16)) * 2.0 + load(A, BX, 0))))
    assert ([4], [4]) == widths(func)
    (loop,) = [s for s in walk(func.body) if isinstance(s, For)]
    assert ForKind.UNROLLED is loop.kind


def test_dtypes_of_different_sizes_have_widths_of_their_own():
    h = buffer("H", 64, 64, scope=Scope.GLOBAL, dtype=as_dtype("float16"))
    place = (BX, THREAD % 8 * 8 + W)
    func = vectorized(lanes(8, store(B, *place, cast(load(h, *place), FLOAT32))), params=(h, B))
    assert ([8], [4, 4]) == widths(func)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ((BX, THREAD % 16 * 4 + W), 4),
        ((BX, THREAD % 16 * 4 + W + 2), 2),
        ((BX, THREAD % 16 * 4 + W + 1), 1),
        ((BX, THREAD % 16 * 4 + 2 * W), 1),
        ((BX, THREAD % 16 * 4 - W), 1),
        ((W, THREAD), 1),
        ((BX + W, THREAD % 16 * 4 + W), 1),
        ((BX, cast(load(buffer("I", 64, scope=Scope.SHARED, dtype=INT32), THREAD), INT32) * 4 + W), 4),
    ],
)
def test_only_aligned_neighbors_are_taken_together(index, expected):
    func = vectorized(lanes(4, store(S, BX, THREAD, load(A, *index))))
    assert ([expected] * (4 // expected) if expected > 1 else []) == widths(func)[0]


def test_rows_must_begin_at_a_multiple():
    odd = buffer("O", 64, 63, scope=Scope.GLOBAL)
    even = buffer("E", 64, 62, scope=Scope.GLOBAL)
    for target, expected in ((odd, []), (even, [2, 2])):
        func = vectorized(lanes(4, store(S, BX, THREAD, load(target, BX, THREAD % 8 * 4 + W))), params=(target,))
        assert expected == widths(func)[0]


def test_sizes_that_are_multiples_by_name_count():
    for shape, expected in (((as_expr(8), N * 8), [4]), ((as_expr(8), N), [])):
        x = Buffer("X", shape, FLOAT32, Scope.GLOBAL)
        func = vectorized(lanes(4, store(S, BX, THREAD, load(x, BX, THREAD * 4 + W))), params=(x,))
        assert expected == widths(func)[0]


def test_strides_and_alignment_of_parameters_count():
    place = (BX, THREAD % 16 * 4 + W)
    for strides, alignment, expected in (
        (exprs(68, 1), 16, [4]),
        (exprs(66, 1), 16, [2, 2]),
        (exprs(64, 2), 16, []),
        (None, 8, [2, 2]),
        (None, 4, []),
    ):
        x = Buffer("X", exprs(64, 64), FLOAT32, Scope.GLOBAL, strides, alignment_bytes=alignment)
        func = vectorized(lanes(4, store(S, BX, THREAD, load(x, *place))), params=(x,))
        assert expected == widths(func)[0]


def test_layouts_of_shared_memory_decide_how_much_stays_together():
    def swizzled(granule):
        def place(i, j):
            return i, (j // granule ^ i % 8) * granule + j % granule

        return Layout((64, 64), place)

    body = lanes(4, store(S, BX, THREAD % 16 * 4 + W, load(A, BX, THREAD % 16 * 4 + W)))
    for granule, expected in ((8, [4]), (4, [4]), (2, [2, 2]), (1, [])):
        plan = LaunchPlan(shared_layouts=((S, swizzled(granule)),))
        assert expected == widths(vectorized(body, plan=plan))[1]


def test_a_safe_value_must_not_be_needed():
    inside = lanes(4, store(S, BX, THREAD, load(A, BX, THREAD % 16 * 4 + W)))
    outside = lanes(4, store(S, BX, THREAD, load(A, BX + 62, THREAD % 16 * 4 + W)))
    for value, expected in ((0.0, [[4], [4]]), (9.0, [[4], []])):
        hints = LaunchHints(safe_values=((A, const(value, FLOAT32)),))
        assert expected == [widths(vectorized(body, hints=hints))[0] for body in (inside, outside)]


def test_conditions_that_all_lanes_share_stand_outside():
    place = at(BX, THREAD % 16)
    body = If(THREAD < 7, store(B, *place, load(A, *place)))
    func = vectorized(lanes(4, body))
    assert ([4], [4]) == widths(func)
    own = If(W < 3, store(B, *place, load(A, *place)))
    assert ([], []) == widths(vectorized(lanes(4, own)))


def test_choices_keep_their_loads_from_being_made():
    place = at(BX, THREAD % 16)
    fixed = select(THREAD < 7, load(A, *place), as_expr(0.0))
    own = select(W < 3, load(A, *place), as_expr(0.0))
    assert [4] == widths(vectorized(lanes(4, store(B, *place, fixed))))[0]
    assert [] == widths(vectorized(lanes(4, store(B, *place, own))))[0]


def test_a_load_that_stands_in_several_places_is_made_where_its_first_use_is():
    x, row = load(A, *at(BX, THREAD % 16)), load(A, BX, 0)
    func = vectorized(lanes(4, store(B, *at(BX, THREAD % 16), select((x > 1.0) & (x < row), 1.0, 2.0))))
    verify(func)
    assert ([4], [4]) == widths(func)
    func = vectorized(lanes(4, store(B, *at(BX, THREAD % 16), select(row > 1.0, x * x, 2.0))))
    assert ([4], [4]) == widths(func)


def test_a_load_stays_where_another_of_its_places_is_reached_in_other_cases_or_behind_a_store():
    x, row = load(A, *at(BX, THREAD % 16)), load(A, BX, 0)
    elsewhere = select(row > 1.0, x, 2.0) + select(row > 0.0, x, 3.0)
    assert ([], [4]) == widths(vectorized(lanes(4, store(B, *at(BX, THREAD % 16), elsewhere))))
    anew = store(B, *at(BX, THREAD % 16), x), store(A, *at(BX, THREAD % 16), 0.0), store(S, *at(BX, THREAD % 16), x)
    assert [] == widths(vectorized(lanes(4, *anew)))[0]


def test_what_lanes_hand_to_each_other_keeps_its_order():
    place = at(BX, THREAD % 16)
    same = store(S, *place, load(S, *place) + 1.0)
    assert ([4], [4]) == widths(vectorized(lanes(4, same)))
    shifted = store(S, *place, load(S, BX, THREAD % 16 * 4 + W + 2))
    assert ([], []) == widths(vectorized(lanes(4, shifted)))
    twice = (store(S, *place, load(A, *place)), store(B, *place, load(S, *place)))
    assert ([4], [4]) == widths(vectorized(lanes(4, *twice)))  # of A and of B
    again = (store(S, *place, load(A, *place)), store(S, *place, load(B, *place)))
    assert [] == widths(vectorized(lanes(4, *again)))[1]


def test_parts_of_a_row_that_lanes_do_not_share_move_apart():
    def rotated(buffer, distance):
        low, high = at(BX, THREAD % 8), (BX, THREAD % 8 * 4 + W + distance)
        stores = store(buffer, *low, load(A, *high)), store(buffer, *high, load(A, *low))
        return widths(vectorized(lanes(4, *stores)))

    assert ([4, 4], [4, 4]) == rotated(S, 32)
    assert ([4, 4], [4, 4]) == rotated(B, 4)
    assert [] == rotated(S, 2)[1]
    assert ([4], [4]) == rotated(A, 32)  # the first store changes what the second one loads


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "float64"])
@pytest.mark.parametrize("shape", [(16, 64), (7, 24), (5, 30), (3, 17)])
def test_programs_mean_the_same(shape, dtype):
    @T.prim_func
    def f(A: T.Tensor(shape, dtype), B: T.Tensor(shape, T.float32), C: T.Tensor(shape, dtype)):
        with T.Kernel(2, 2, threads=32) as (bx, by):
            s = T.alloc_shared((8, 32), dtype)
            r = T.alloc_fragment((8, 32), T.float32)
            T.copy(A[by * 8, bx * 32], s)
            T.copy(s, r)
            for i, j in T.Parallel(8, 32):
                r[i, j] = r[i, j] * 2 + s[i, j]
            T.copy(r, B[by * 8, bx * 32])
            T.fill(s, 0)
            T.copy(s, C[by * 8, bx * 32])

    numpy = as_dtype(dtype).numpy
    machine = assert_threads_agree(f, ints(*shape, dtype=numpy), ints(*shape), ints(*shape, dtype=numpy))
    assert machine.counts["vector"] or dtype == "float64"


def test_no_loop_of_the_kind_is_left():
    @T.prim_func
    def f(A: T.Tensor((40,), T.float32), B: T.Tensor((40,), T.float32)):
        with T.Kernel(1, threads=32) as _:
            for i in T.vectorized(2, 10):
                B[i] = A[i]
            for i in T.vectorized(3):
                for k in T.vectorized(4):
                    B[i * 4 + k] = A[i * 4 + k] + 1

    assert_threads_agree(f, ints(40), ints(40))
    lowered = run_passes(f, TO_ACCESSES, SM80)
    assert not any(isinstance(s, For) and s.kind is ForKind.VECTORIZED for s in walk(lowered.body))


def test_rows_that_indices_choose_move_in_wide_accesses():
    batch, rows = T.dynamic("batch"), T.dynamic("rows")

    @T.prim_func
    def gather(
        A: T.Tensor((batch, rows, 1, 40), "float16"),
        at: T.Tensor((batch, 24), "int32"),
        B: T.Tensor((batch, 24, 32), "float16"),
    ):
        with T.Kernel(batch, threads=64) as b:
            chosen = T.alloc_shared((24, 32), "float16")
            for i, j in T.Parallel(24, 32):
                chosen[i, j] = A[b, at[b, i], 0, 8 + j]
            T.copy(chosen, B[b, :, :])

    rng = np.random.default_rng(0)
    data = rng.standard_normal((2, 9, 1, 40)).astype(np.float16)
    index = rng.integers(0, 9, (2, 24)).astype(np.int32)
    arguments = (data, index, np.zeros((2, 24, 32), np.float16))
    for run in (run_reference_on_copies, simulate_on_copies):
        np.testing.assert_array_equal(data[np.arange(2)[:, None], index, 0, 8:], run(gather, arguments)[-1])
    source = tilelang.lower(gather, target={"kind": "cuda", "arch": "sm_90a"}).kernel_source
    assert "*(const uint4*)&A[" in source
