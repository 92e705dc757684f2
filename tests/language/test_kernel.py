"""`T.Kernel` and `T.block`: grids, blocks, and statements outside of any kernel."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import JITNoBuilderError, ProgramError
from tilelang.language.kernel import _normalize_threads
from tilelang.sim.tile_interp import run_reference


def test_grids_of_one_two_and_three_dimensions():
    @T.prim_func
    def main(A: T.Tensor((2, 3, 4), "int32"), n: T.int32):
        with T.Kernel(4, 3, n, threads=64) as (bx, by, bz):
            A[bz, by, bx] += bx + 10 * by + 100 * bz
        with T.Kernel(4, 3) as (bx, by):
            A[0, by, bx] += 1000
        with T.Kernel(4, threads=(16, 4)) as b:
            A[0, 0, b] += 10000

    a = np.zeros((2, 3, 4), np.int32)
    run_reference(main, [a, 2])
    z, y, x = np.indices((2, 3, 4))
    np.testing.assert_array_equal(x + 10 * y + 100 * z + 1000 * (z == 0) + 10000 * ((z == 0) & (y == 0)), a)


def test_an_empty_grid_runs_nothing():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32"), n: T.int32):
        with T.Kernel(n) as bx:
            A[0] = 1

    a = np.zeros(1, np.int32)
    run_reference(main, [a, 0])
    assert 0 == a[0]


def test_block_without_a_kernel_is_a_grid_of_one():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.block("root"):
            S = T.alloc_shared((4,), "int32")
            T.fill(S, 3)
            with T.block("inner"):
                T.copy(S, A)

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [3] * 4 == a.tolist()


def test_statements_outside_of_kernels_run_in_order_with_them():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        twice = 2 * A.shape[0]
        A[0] = 1
        with T.Kernel(4) as bx:
            A[bx] = A[bx] + twice
        for i in T.serial(4):
            A[i] *= 10

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [90, 80, 80, 80] == a.tolist()


def test_a_name_of_a_kernel_that_has_ended_is_free():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            value = A[0]
            B[0] = value
        with T.Kernel(1):
            for i in T.Parallel(4):
                value = A[i]
                B[i] = value + 1
            if A[0] == 1:
                value = A[3]
                B[3] = value

    a, b = np.arange(1, 5, dtype=np.int32), np.zeros(4, np.int32)
    run_reference(main, [a, b])
    assert [2, 3, 4, 4] == b.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": (1, 2, 3, 4)}, "a grid has at most three extents, got 4"),
        ({"grid": (1.5,)}, "grid extents must be integers, got float32"),
        ({"threads": 0}, "threads must be positive, got 0"),
        ({"threads": [32, -1]}, r"threads must be positive, got \[32, -1\]"),
        ({"threads": ()}, r"threads must be one to three positive integer constants, got \(\)"),
        ({"threads": "many"}, "threads must be one to three positive integer constants, got 'many'"),
    ],
)
def test_wrong_options_are_errors(options, message):
    grid = options.pop("grid", (1,))
    with pytest.raises(ValueError if "threads" in options else ProgramError, match=message) as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(*grid, **options):
                A[0] = 1

    assert caught.value.hint


def test_indices_of_a_block_have_as_many_names_as_the_grid_has_extents():
    with pytest.raises(ValueError, match="the grid has 1 extent, but the indices of a block are given 2 names"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(4) as (bx, by):
                A[bx] = by

    with pytest.raises(ProgramError, match="the grid has 2 extents, but the indices of a block are given 1 name"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(4, 2) as (bx,):
                A[bx] = 1


def test_a_grid_without_extents_is_one_block_and_one_index_may_be_unpacked():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel():
            A[0] = T.get_thread_extent()
        with T.Kernel(threads=64):
            A[1] = T.get_thread_extent() + 1000 * T.get_block_extent()
        with T.Kernel(4, threads=[32, 2]) as (b,):
            A[b] += 100
        with T.Kernel(3) as [b]:
            A[b + 1] += 1

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [228, 1165, 101, 101] == a.tolist()


def test_a_kernel_of_clusters_knows_how_many_there_are():
    seen = []

    @T.prim_func
    def main(A: T.Tensor((8, 4), "int32"), n: T.int32):
        with T.ClusterKernel(8, 4, cluster_dims=(2, 2), threads=32) as (bx, by):
            seen.append((T.get_cluster_dims(), T.get_cluster_size(), T.get_cluster_extents()))
            A[bx, by] = T.get_cluster_id() + 10 * T.get_cluster_id(1)
        with T.ClusterKernel(n, cluster_dims=4) as bx:
            seen.append((T.get_cluster_dims(), T.get_cluster_size(), T.get_block_extents()[1:]))
            A[bx, 0] += 100 * T.get_cluster_extent() + 1000 * T.get_cluster_ids()[0]

    assert [([2, 2, 1], 4, [4, 2, 1]), ([4, 1, 1], 4, [1, 1])] == seen
    a = np.zeros((8, 4), np.int32)
    run_reference(main, [a, 8])
    x, y = np.indices((8, 4))
    np.testing.assert_array_equal(x // 2 + 10 * (y // 2) + (y == 0) * (200 + 1000 * (x // 4)), a)


def test_a_kernel_outside_of_a_function_under_construction_is_an_error():
    with pytest.raises(JITNoBuilderError, match="T.Kernel: may only be used inside a kernel"):
        T.Kernel(1)


def test_threads_are_normalized_to_three_extents():
    assert [[128, 1, 1], [64, 1, 1], [8, 4, 1], [1, 2, 3]] == [
        _normalize_threads(threads) for threads in (None, 64, [8, 4], (1, 2, 3))
    ]


def test_a_macro_may_open_kernels_and_test_plain_values():
    @T.macro
    def fill(A, count, value):
        assert count % 2 == 0, "even sizes only"
        with T.Kernel(count) as bx:
            A[bx] = value

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        fill(A, 4, 1)
        fill(A, 2, 5)

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [5, 5, 1, 1] == a.tolist()


def test_kernels_do_not_nest():
    with pytest.raises(ProgramError, match="a kernel cannot stand inside another kernel"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                with T.Kernel(1) as by:
                    A[0] = 1


def test_a_kernel_in_a_staged_loop_is_an_error():
    with pytest.raises(ProgramError, match="cannot stand inside a staged loop or branch"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            for i in range(3):
                with T.Kernel(1) as bx:
                    A[0] = 1


def test_a_kernel_in_a_plain_loop_is_several_kernels():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        for factor in (2, 3):
            with T.Kernel(4) as bx:
                A[bx] = A[bx] * factor + 1

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [4] * 4 == a.tolist()
