"""Gemms by the matrix instruction of a wave of 64 lanes."""

import numpy as np
import pytest
from invented.isa.matrix import MATRIX_MULTIPLY
from tiled_gemm import tiled_gemm

import tilelang.language as T

POLICIES = [T.GemmWarpPolicy.Square, T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol]


def ints(*shape, dtype="float16"):
    """Small integers, whose products and sums are exact."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype(T.dtype(dtype).numpy)


def tiled(m, n, k, tile, *, threads=256, trans_a=False, trans_b=False, out="float32", **options):
    """C = A @ B by tiles of (rows, columns, depth)."""
    transposed = {"trans_a": trans_a, "trans_b": trans_b}
    main = tiled_gemm((m, n, k), tile, threads=threads, out=out, **transposed, **options)

    a, b = ints(*((k, m) if trans_a else (m, k))), ints(*((n, k) if trans_b else (k, n)))
    return main, a, b, np.zeros((m, n), out)


def check_gemm(check, *given, **options):
    main, a, b, c = tiled(*given, **options)
    outcome = check(main, a, b, c)
    left, right = (a.T if options.get("trans_a") else a), (b.T if options.get("trans_b") else b)
    np.testing.assert_array_equal(outcome.arguments[2], left.astype(np.float64) @ right.astype(np.float64))
    assert outcome.calls(MATRIX_MULTIPLY)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("tile", [(64, 64, 32), (128, 32, 16), (32, 128, 64)])
def test_warp_policies(check, policy, tile):
    check_gemm(check, 128, 128, 64, tile, policy=policy)


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_transposed_operands(check, trans_a, trans_b):
    check_gemm(check, 64, 128, 96, (64, 64, 32), trans_a=trans_a, trans_b=trans_b)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("num_stages", [0, 1, 3])
@pytest.mark.parametrize("threads", [64, 128])
def test_stages_of_a_pipelined_loop(check, num_stages, threads):
    check_gemm(check, 64, 64, 128, (64, 64, 32), num_stages=num_stages, threads=threads)


@pytest.mark.parametrize(("size", "tile"), [((70, 50, 45), (64, 64, 32)), ((48, 24, 20), (48, 24, 20)), ((5, 9, 3), (16, 16, 16))])
def test_tiles_that_whole_instructions_do_not_cover(check, size, tile):
    check_gemm(check, *size, tile, threads=128)


def test_results_of_halves(check):
    check_gemm(check, 64, 64, 64, (64, 64, 32), out="float16")


def test_a_wave_multiplies_once_for_each_instruction(check):
    """64 x 64 x 32 are 2 * 2 * 4 instructions, of which each of 4 waves does 4."""
    main, a, b, c = tiled(64, 64, 32, (64, 64, 32), threads=256)
    outcome = check(main, a, b, c)
    assert 16 == outcome.counters.instructions[MATRIX_MULTIPLY.name]


@pytest.mark.parametrize("scopes", ["sff", "fsf", "fff", "sss", "ssf"])
def test_every_placement(check, scopes):
    alloc = {"s": T.alloc_shared, "f": T.alloc_fragment}

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 96), "float16"), C: T.Tensor((64, 96), "float32")):
        with T.Kernel(1, threads=128):
            a = alloc[scopes[0]]((64, 32), "float16")
            b = alloc[scopes[1]]((32, 96), "float16")
            c = alloc[scopes[2]]((64, 96), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.gemm(a, b, c)
            T.copy(c, C)

    outcome = check(main, ints(64, 32), ints(32, 96), ints(64, 96, dtype="float32"))
    assert outcome.calls(MATRIX_MULTIPLY)


@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("float16", "float16"), ("int8", "int32")])
def test_other_dtypes_multiply_without_the_instruction(check, dtypes):
    dtype, sums = dtypes

    @T.prim_func
    def main(A: T.Tensor((32, 16), dtype), B: T.Tensor((16, 24), dtype), C: T.Tensor((32, 24), sums)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((32, 16), dtype), T.alloc_shared((16, 24), dtype)
            c = T.alloc_fragment((32, 24), sums)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    outcome = check(main, ints(32, 16, dtype=dtype), ints(16, 24, dtype=dtype), np.zeros((32, 24), sums))
    assert [] == outcome.calls(MATRIX_MULTIPLY)


def test_a_machine_without_the_instruction(check):
    main, a, b, c = tiled(64, 64, 32, (64, 64, 32), threads=256)
    assert [] == check(main, a, b, c, arch="wave64-plain").calls(MATRIX_MULTIPLY)
