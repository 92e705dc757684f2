"""Whole programs as C++: random kernels agree with the reference interpreter; the text is readable."""

import numpy as np
import pytest
from harness import run_everywhere
from programs import random_program

import tilelang
import tilelang.language as T
from tilelang.errors import CompilerBug, ResourceError
from tilelang.targets.cpu.codegen.cpp import emit

FLAGS = "-O1"


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("symbolic", [False, True])
def test_random_kernels_agree_with_the_reference_on_every_integer(seed, symbolic):
    program = random_program(100 + seed, launches=4, symbolic=symbolic)
    run_everywhere(program.func, *program.arguments, compile_flags=FLAGS)


def test_scalars_are_passed_in_their_dtype():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), x: T.float32, n: T.int32, flag: T.bool, h: T.float16):
        with T.Kernel(1):
            A[0] = x
            A[1] = T.cast(n, "float32")
            A[2] = T.if_then_else(flag, 1.0, 2.0)
            A[3] = T.cast(h, "float32")

    run_everywhere(main, np.zeros(4, np.float32), 0.1, -7, True, 0.1, compile_flags=FLAGS)


def test_launches_run_in_order_with_a_workspace_between_them():
    @T.prim_func
    def main(A: T.Tensor((T.dyn["n"],), "float32"), B: T.Tensor((1,), "float32")):
        n = A.shape[0]
        squares = T.alloc_global((n,), "float32")
        with T.Kernel(T.ceildiv(n, 4)) as bx:
            for i in T.Parallel(4):
                squares[bx * 4 + i] = A[bx * 4 + i] * A[bx * 4 + i]
        with T.Kernel(1):
            total = T.alloc_var("float32", init=0.0)
            for k in T.serial(n):
                total += squares[k]
            B[0] = total

    values = run_everywhere(main, np.arange(7, dtype=np.float32), np.zeros(1, np.float32), compile_flags=FLAGS)
    assert [91.0] == values[1].tolist()


def test_grids_of_one_two_and_three_dimensions_run_each_block_once():
    @T.prim_func
    def main(A: T.Tensor((3, 4, 5), "int32"), B: T.Tensor((3, 4), "int32"), n: T.int32):
        with T.Kernel(5, 4, n) as (bx, by, bz):
            A[bz, by, bx] = A[bz, by, bx] + bx + by * 10 + bz * 100
        with T.Kernel(4, 3) as (bx, by):
            B[by, bx] = B[by, bx] + bx - by
        with T.Kernel(n - 2) as bx:
            B[bx, 0] = 1

    run_everywhere(main, np.zeros((3, 4, 5), np.int32), np.zeros((3, 4), np.int32), 3, compile_flags=FLAGS)


def test_names_that_clash_with_cpp_or_with_each_other():
    @T.prim_func
    def int32_t(float: T.Tensor((4,), "int32"), std: T.Tensor((4,), "int32")):
        with T.Kernel(1) as tl:
            for i in T.Parallel(4):
                float[i] = std[i] + 1
            for i in T.Parallel(4):
                for register in T.serial(2):
                    float[i] = float[i] + register

    run_everywhere(int32_t, np.zeros(4, np.int32), np.arange(4, dtype=np.int32), compile_flags=FLAGS)


def test_names_that_clash_with_those_of_the_entry():
    @T.prim_func
    def main(block: T.float32, blocks: T.float32, grid_x: T.float32, blocks_arg: T.float32, A: T.Tensor((6,), "float32")):
        n = T.alloc_global((A.shape[0],), "float32")
        with T.Kernel(2) as bx:
            for i in T.Parallel(3):
                n[bx * 3 + i] = block + 10 * blocks
        with T.Kernel(2) as bx:
            for i in T.Parallel(3):
                A[bx * 3 + i] = n[bx * 3 + i] + 100 * grid_x + 1000 * blocks_arg

    values = run_everywhere(main, 1.0, 2.0, 3.0, 4.0, np.zeros(6, np.float32), compile_flags=FLAGS)
    assert [4321.0] * 6 == values[4].tolist()


def test_failed_allocations_of_tiles_are_errors():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((1 << 24, 1 << 24), "float64")
            tile[0, 0] = 1.0
            A[0] = T.cast(tile[0, 0], "int32")

    kernel = tilelang.compile(main, target="cpu", compile_flags=FLAGS)
    with pytest.raises(ResourceError, match="not enough memory for the tiles"):
        kernel(np.zeros(4, np.int32))


def test_large_tiles_come_from_the_arena_of_each_thread():
    @T.prim_func
    def main(A: T.Tensor((8, 8192), "float32"), B: T.Tensor((8, 8192), "float32")):
        with T.Kernel(8) as bx:
            row = T.alloc_shared((8192,), "float32")
            T.copy(A[bx, :], row)
            for i in T.Parallel(8192):
                B[bx, i] = row[8191 - i]

    a = np.arange(8 * 8192, dtype=np.float32).reshape(8, 8192)
    assert "tl_arena(32768)" in tilelang.compile(main, target="cpu", compile_flags=FLAGS).get_kernel_source()
    np.testing.assert_array_equal(a[:, ::-1], run_everywhere(main, a, np.zeros_like(a), compile_flags=FLAGS)[1])


def test_parameters_that_are_only_read_are_const():
    @T.prim_func
    def copy_row(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.copy(A, B)

    kernel = tilelang.compile(copy_row, target="cpu", compile_flags=FLAGS)
    assert 'extern "C" int32_t copy_row(const float* A, float* B) {' in kernel.get_kernel_source()


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_of_uneven_length_are_scheduled_dynamically(causal):
    @T.prim_func
    def main(A: T.Tensor((64, 16), "float32")):
        with T.Kernel(8) as bx:
            for k in T.serial(bx + 1 if causal else 8):
                for i in T.Parallel(16):
                    A[bx * 8 + k, i] = 1.0

    text = tilelang.compile(main, target="cpu", compile_flags=FLAGS).get_kernel_source()
    assert f"schedule({'dynamic' if causal else 'static'})" in text


def test_a_tile_level_function_cannot_be_printed():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.clear(A)

    with pytest.raises(CompilerBug, match="'main' is at tile level"):
        emit(main)
