"""Pipelined loops mean what they meant, for any number of stages and iterations, with copies landing late."""

import numpy as np
import pytest
from harness import run_reference_on_copies
from hypothesis import given, settings
from hypothesis import strategies as st
from lazy_copies import expanded, planned, run_lazily

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, For, ForKind, Launch
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk

TILE = 8


def product(stages, trips=None, start=0, step=1, place="outside"):
    """C = A @ B along K in tiles; A (8, K), B (K, 8)."""
    K = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((TILE, K), "int32"), B: T.Tensor((K, TILE), "int32"), C: T.Tensor((TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            C_l = T.alloc_fragment((TILE, TILE), "int32")
            if place == "outside":
                A_s = T.alloc_shared((TILE, TILE), "int32")
                B_s = T.alloc_shared((TILE, TILE), "int32")
            T.clear(C_l)
            with T.pipeline(num_stages=stages):
                for k in T.serial(start, K // TILE if trips is None else trips, step):
                    if place == "inside":
                        A_s = T.alloc_shared((TILE, TILE), "int32")
                        B_s = T.alloc_shared((TILE, TILE), "int32")
                    T.copy(A[0, k * TILE], A_s)
                    T.copy(B[k * TILE, 0], B_s)
                    T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C)

    return main


def check(func, *arguments, in_flight=None):
    """The expanded function gives what the function gives, though copies land as late as they may."""
    expected = run_reference_on_copies(func, arguments)
    after = expanded(func)
    verify(after)
    assert not any(isinstance(s, For) and s.kind is ForKind.PIPELINED for s in walk(after.body))
    actual, most = run_lazily(after, arguments)
    for want, got in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(want, got)
    if in_flight is not None:
        assert in_flight == most
    return after


def matrices(k):
    rng = np.random.default_rng(k)
    a, b = rng.integers(-9, 9, (TILE, k), np.int32), rng.integers(-9, 9, (k, TILE), np.int32)
    return a, b, np.zeros((TILE, TILE), np.int32)


@given(
    st.integers(0, 5), st.integers(0, 7), st.booleans(), st.sampled_from([(0, 1), (1, 1), (0, 2), (2, 3)]),
    st.sampled_from(["inside", "outside"]),
)  # fmt: skip
def test_any_number_of_stages_and_iterations_gives_the_same_product(stages, trips, static, bounds, place):
    func = product(stages, trips if static else None, *bounds, place)
    iterations = len(range(bounds[0], trips, bounds[1]))
    check(func, *matrices(trips * TILE), in_flight=min(iterations, max(stages - 1, 1)))


def taken_to_registers(stages, trips=5, start=0, step=1):
    """Sums tiles of A and B that an iteration takes to registers first."""

    @T.prim_func
    def main(A: T.Tensor((TILE, 128), "int32"), B: T.Tensor((TILE, 128), "int32"), C: T.Tensor((TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            B_s = T.alloc_shared((TILE, TILE), "int32")
            a = T.alloc_fragment((TILE, TILE), "int32")
            b = T.alloc_fragment((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            with T.pipeline(num_stages=stages):
                for k in T.serial(start, trips, step):
                    first = k * k
                    T.copy(A[0:TILE, first : first + TILE], A_s)
                    T.copy(A_s, a)
                    T.copy(B[0:TILE, first : first + TILE], B_s)
                    T.copy(B_s, b)
                    factor = T.cast(first, "int32") + 1
                    for i, j in T.Parallel(TILE, TILE):
                        total[i, j] += a[i, j] * factor + b[i, j] * first
            T.copy(total, C)

    return main


@settings(max_examples=20)
@given(st.integers(0, 4), st.integers(0, 7), st.sampled_from([(0, 1), (1, 1), (0, 2)]))
def test_copies_follow_what_takes_their_tiles_to_registers(stages, trips, bounds):
    rng = np.random.default_rng(trips)
    a, b = rng.integers(-9, 9, (2, TILE, 128), np.int32)
    iterations = len(range(bounds[0], trips, bounds[1]))
    func = taken_to_registers(stages, trips, *bounds)
    check(func, a, b, np.zeros((TILE, TILE), np.int32), in_flight=min(iterations, max(stages, 1)))


def test_copies_behind_their_readers_need_a_version_less():
    def versions(func):
        (launch,) = [s for s in walk(func.body) if isinstance(s, Launch)]
        return [count for _, count in launch.plan.versions]

    after = expanded(taken_to_registers(2))
    text = to_text(after)
    order = [text.index("cp_async_wait(1)"), text.rindex("T.copy(B_s"), text.index("if k + 2 <"), text.index("T.Parallel")]
    assert sorted(order) == order
    assert [2, 2] == versions(after)
    assert [] == versions(expanded(taken_to_registers(1)))


def test_loops_that_count_down_are_pipelined_too():
    check(product(3, trips=-1, start=5, step=-1), *matrices(6 * TILE), in_flight=2)


def test_copies_of_two_iterations_ahead_are_under_way_in_three_stages():
    after = check(product(3), *matrices(9 * TILE), in_flight=2)
    text = to_text(after)
    assert text.index("cp_async_wait(1)") < text.index("if k + 2 <") < text.index("T.gemm")


def test_versions_are_told_in_the_plan_and_take_their_annotated_layouts_along():
    @T.prim_func
    def main(A: T.Tensor((TILE, 64), "int32"), C: T.Tensor((TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            T.annotate_layout({A_s: T.Layout((TILE, TILE), lambda i, j: i * 12 + j)})
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            for k in T.Pipelined(8, num_stages=4):
                T.copy(A[0, k * TILE], A_s)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] += A_s[i, j]
            T.copy(total, C)

    after = check(main, np.arange(TILE * 64, dtype=np.int32).reshape(TILE, 64), np.zeros((TILE, TILE), np.int32))
    (launch,) = (s for s in walk(after.body) if isinstance(s, Launch))
    ((buffer, count),) = launch.plan.versions
    ((annotated, layout),) = launch.hints.layouts
    assert (4, (4, TILE, TILE), True) == (count, buffer.static_shape, annotated is buffer)
    assert (TILE, TILE) == layout.shape
    assert [(4, TILE, TILE)] == [
        s.buffer.static_shape for s in walk(after.body) if isinstance(s, Alloc) and s.buffer.name == "A_s"
    ]


@pytest.mark.parametrize("outer", [0, 1, 3])
@pytest.mark.parametrize("stages", [2, 3])
def test_a_pipeline_inside_of_a_loop_starts_anew_each_time(outer, stages):
    @T.prim_func
    def main(A: T.Tensor((TILE, 40), "int32"), C: T.Tensor((4, TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            for n in T.serial(outer):
                T.clear(total)
                for k in T.Pipelined(n, 5, num_stages=stages):
                    T.copy(A[0, k * TILE], A_s)
                    for i, j in T.Parallel(TILE, TILE):
                        total[i, j] += A_s[i, j]
                T.copy(total, C[n, 0, 0])

    check(main, np.arange(TILE * 40, dtype=np.int32).reshape(TILE, 40), np.zeros((4, TILE, TILE), np.int32))


@pytest.mark.parametrize("first,second", [(2, 2), (3, 2), (2, 4), (3, 0)])
def test_two_loops_that_fill_one_buffer_have_versions_of_their_own(first, second):
    @T.prim_func
    def main(A: T.Tensor((TILE, 40), "int32"), C: T.Tensor((TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            for k in T.Pipelined(5, num_stages=first):
                T.copy(A[0, k * TILE], A_s)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] += A_s[i, j]
            for k in T.Pipelined(4, num_stages=second):
                T.copy(A[0, (k + 1) * TILE], A_s)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] = total[i, j] * 3 + A_s[j, i]
            T.copy(total, C)

    check(main, np.arange(TILE * 40, dtype=np.int32).reshape(TILE, 40), np.zeros((TILE, TILE), np.int32))


def test_pipelines_in_pipelines_keep_their_groups_apart():
    @T.prim_func
    def main(A: T.Tensor((TILE, 40), "int32"), B: T.Tensor((TILE, 40), "int32"), C: T.Tensor((TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            B_s = T.alloc_shared((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            for k in T.Pipelined(5, num_stages=3):
                T.copy(A[0, k * TILE], A_s)
                for m in T.Pipelined(k, num_stages=2):
                    T.copy(B[0, m * TILE], B_s)
                    for i, j in T.Parallel(TILE, TILE):
                        total[i, j] += B_s[i, j] * A_s[j, i]
            T.copy(total, C)

    a = np.arange(TILE * 40, dtype=np.int32).reshape(TILE, 40)
    check(main, a, a[::-1].copy(), np.zeros((TILE, TILE), np.int32))


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_tiles_changed_in_place_after_they_were_copied_stay_apart(stages):
    @T.prim_func
    def main(A: T.Tensor((TILE, 40), "int32"), C: T.Tensor((5, TILE), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            sums = T.alloc_fragment((TILE,), "int32")
            for k in T.Pipelined(5, num_stages=stages):
                T.copy(A[0, k * TILE], A_s)
                for i, j in T.Parallel(TILE, TILE):
                    A_s[i, j] = A_s[i, j] * (i + k)
                T.reduce_sum(A_s, sums, dim=1)
                T.copy(sums, C[k, 0])

    check(main, np.arange(TILE * 40, dtype=np.int32).reshape(TILE, 40), np.zeros((5, TILE), np.int32))


@pytest.mark.parametrize("stages", [2, 3])
def test_where_to_copy_from_may_be_read_from_memory(stages):
    @T.prim_func
    def main(
        A: T.Tensor((TILE, 40), "int32"), table: T.Tensor((5,), "int32"), C: T.Tensor((TILE, TILE), "int32")
    ):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            for k in T.Pipelined(5, num_stages=stages):
                page = table[k]
                T.copy(A[0, page * TILE], A_s)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] = total[i, j] * 2 + A_s[i, j] * page
            T.copy(total, C)

    a = np.arange(TILE * 40, dtype=np.int32).reshape(TILE, 40)
    after = check(main, a, np.array([3, 0, 4, 4, 1], np.int32), np.zeros((TILE, TILE), np.int32), in_flight=stages - 1)
    assert "table[k + " in to_text(after)


@pytest.mark.parametrize(
    "stage,order",
    [([0, 0, 1], [0, 1, 2]), ([0, 0, 2], [1, 2, 0]), ([1, 0, 1], [0, 1, 2]), ([0, 1, 3], None), ([2, 2, 3], [0, 1, 2])],
)
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_statements_placed_by_hand_run_in_their_stages(stage, order, trips):
    @T.prim_func
    def main(A: T.Tensor((TILE, 40), "int32"), B: T.Tensor((TILE, 40), "int32"), C: T.Tensor((TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            B_s = T.alloc_shared((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            for k in T.Pipelined(trips, num_stages=2, stage=stage, order=order):
                T.copy(A[0, k * TILE], A_s)
                T.copy(B[0, k * TILE], B_s)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] = total[i, j] * 3 + A_s[i, j] * (B_s[j, i] + k)
            T.copy(total, C)

    a = np.arange(TILE * 40, dtype=np.int32).reshape(TILE, 40) % 7
    check(main, a, a[::-1].copy(), np.zeros((TILE, TILE), np.int32))
    plan = next(s for s in walk(planned(main).body) if isinstance(s, For) and s.pipeline is not None)
    assert tuple(s - min(stage) for s in stage) == plan.pipeline.stage


@pytest.mark.parametrize(
    "stage,order",
    [
        ([0, 0, 0, 0, 1], [0, 1, 4, 2, 3]),
        ([0, 0, 1, 0, 1], [0, 1, 2, 3, 4]),
        ([1, 0, 2, 1, 2], [0, 3, 1, 2, 4]),
        ([0, 1, 2, 1, 2], [0, 1, 2, 3, 4]),
        ([0, 0, 1, 1, 1], [1, 4, 0, 2, 3]),
    ],
)
@pytest.mark.parametrize("trips", [0, 1, 5])
def test_what_copies_read_is_written_when_they_are_complete(stage, order, trips):
    """Wherever the statement that writes it stands, and whichever copies share a group."""

    @T.prim_func
    def main(A: T.Tensor((TILE, 40), "int32"), B: T.Tensor((TILE, TILE), "int32"), C: T.Tensor((TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((TILE, TILE), "int32")
            B_s = T.alloc_shared((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.clear(total)
            for k in T.Pipelined(trips, num_stages=2, stage=stage, order=order):
                T.copy(A[0, k * TILE], A_s)
                T.copy(B, B_s)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] = total[i, j] * 3 + A_s[i, j]
                for i, j in T.Parallel(TILE, TILE):
                    T.atomic_add(B[i, j], 1)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] = total[i, j] * 3 + B_s[i, j]
            T.copy(total, C)

    a = np.arange(TILE * 40, dtype=np.int32).reshape(TILE, 40) % 7
    check(main, a, a[:, :TILE].copy(), np.zeros((TILE, TILE), np.int32))
    assert any(isinstance(s, For) and s.pipeline is not None for s in walk(planned(main).body))


def test_copies_outside_of_pipelines_are_awaited_before_their_first_use():
    @T.prim_func
    def main(A: T.Tensor((TILE, 40), "int32"), C: T.Tensor((TILE, TILE), "int32")):
        with T.Kernel(1, threads=32):
            Q_s = T.alloc_shared((TILE, TILE), "int32")
            A_s = T.alloc_shared((TILE, TILE), "int32")
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.copy(A[0, 32], Q_s)
            T.clear(total)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * TILE], A_s)
                for i, j in T.Parallel(TILE, TILE):
                    total[i, j] = total[i, j] + A_s[i, j] * Q_s[j, i]
            T.copy(total, C)

    after = check(main, np.arange(TILE * 40, dtype=np.int32).reshape(TILE, 40), np.zeros((TILE, TILE), np.int32))
    assert 1 == to_text(after).count("cp_async_wait")  # the loop waits for what was copied before it, too


def test_a_tile_of_the_loop_that_nothing_reads_is_there_for_the_copies_that_run_ahead():
    @T.prim_func
    def main(A: T.Tensor((TILE, 40), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for k in T.Pipelined(5, num_stages=3):
                A_s = T.alloc_shared((TILE, TILE), "int32")
                T.copy(A[0, k * TILE], A_s)
                if C[7 - k] == 0:
                    for i in T.Parallel(8):
                        C[i] = k

    check(main, np.arange(TILE * 40, dtype=np.int32).reshape(TILE, 40), np.zeros(8, np.int32))


def products(stages, used, trips=None):
    """Sums of products of tiles with X, which changes; `used` says which tiles each product reads."""
    K = T.dynamic("K")
    count = max(max(each) for each in used) + 1

    @T.prim_func
    def main(A: T.Tensor((count, TILE, K), "int32"), X: T.Tensor((TILE, TILE), "int32"),
             C: T.Tensor((TILE, TILE), "int32")):  # fmt: skip
        with T.Kernel(1, threads=32):
            X_s = T.alloc_shared((TILE, TILE), "int32")
            tiles = [T.alloc_shared((TILE, TILE), "int32") for _ in range(count)]
            total = T.alloc_fragment((TILE, TILE), "int32")
            T.copy(X, X_s)
            T.clear(total)
            for k in T.Pipelined(K // TILE if trips is None else trips, num_stages=stages):
                filled = []
                for i, j in T.Parallel(TILE, TILE):
                    X_s[i, j] = (X_s[i, j] * 5 + k) % 7
                for each in used:
                    for n in each:
                        if n not in filled:
                            T.copy(A[n, 0, k * TILE], tiles[n])
                            filled.append(n)
                        T.gemm(tiles[n], X_s, total)
                    for i, j in T.Parallel(TILE, TILE):
                        total[i, j] = total[i, j] % 97 + k
            T.copy(total, C)

    return main


@settings(max_examples=10)
@given(
    st.integers(2, 4), st.integers(0, 6), st.booleans(),
    st.sampled_from([[[0], [1]], [[0, 1], [2]], [[0], [1], [0]], [[0], [1, 2], [2]], [[1, 0], [0, 2]]]),
)  # fmt: skip
def test_tiles_are_filled_again_after_waits_that_follow_their_readers(stages, trips, static, used):
    count = max(max(each) for each in used) + 1
    rng = np.random.default_rng(trips)
    a = rng.integers(-9, 9, (count, TILE, trips * TILE), np.int32)
    arguments = a, rng.integers(-9, 9, (TILE, TILE), np.int32), np.zeros((TILE, TILE), np.int32)
    after = check(products(stages, used, trips if static else None), *arguments)
    (launch,) = (s for s in walk(after.body) if isinstance(s, Launch))
    assert {stages} == {versions for _, versions in launch.plan.versions}


def test_each_tile_is_awaited_before_its_reader():
    text = to_text(check(products(2, [[0], [1]]), *(np.zeros(s, np.int32) for s in ((2, 8, 40), (8, 8), (8, 8)))))
    body = text[text.index("for k in") :]
    steps = ["cp_async_wait(2)", "T.gemm", "k + 1 <", "cp_async_commit", "cp_async_wait(2)", "T.gemm", "k + 2 <"]
    place = 0
    for step in steps:
        place = body.index(step, place) + 1
