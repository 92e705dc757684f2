"""`T.Kernel` and `T.block`: grids, blocks, and statements outside of any kernel."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": ()}, "a grid has one to three extents, got 0"),
        ({"grid": (1, 2, 3, 4)}, "a grid has one to three extents, got 4"),
        ({"grid": (1.5,)}, "grid extents must be integers, got float32"),
        ({"threads": 0}, "threads must be one to three positive integer constants, got 0"),
        ({"threads": (64, 64)}, "a block has at most 1024 threads"),
        ({"threads": "many"}, "threads must be one to three positive integer constants, got 'many'"),
    ],
)
def test_wrong_options_are_errors(options, message):
    grid = options.pop("grid", (1,))
    with pytest.raises(ProgramError, match=message):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(*grid, **options):
                A[0] = 1


def test_indices_of_a_block_have_as_many_names_as_the_grid_has_extents():
    with pytest.raises(ProgramError, match="the grid has 1 extent, but there are 2 names for a block's indices"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(4) as (bx, by):
                A[bx] = by


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
