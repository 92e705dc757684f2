"""Scalar functions of CUDA and C, and arithmetic on pairs, agree with NumPy on every executor."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang
import tilelang.language as T

N = 64


def test_functions_of_one_and_two_floats_agree_with_numpy():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((11, N), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                C[0, i] = T.asinh(A[i])
                C[1, i] = T.acosh(1 + T.fabs(A[i]))
                C[2, i] = T.atanh(A[i] / 8)
                C[3, i] = T.hypot(A[i], B[i])
                C[4, i] = T.copysign(A[i], B[i])
                C[5, i] = T.nextafter(A[i], B[i])
                C[6, i] = T.ldexp(A[i], i % 5 - 2)
                C[7, i] = T.fmul(x=A[i], y=B[i])
                C[8, i] = T.fast_rcp(A[i])
                C[9, i] = T.clamp(A[i], min_val=-1.0, max_val=B[i])
                C[10, i] = T.round(A[i], "ties-to-even")

    a, b = (np.random.uniform(-4, 4, N).astype(np.float32) for _ in range(2))
    expected = np.stack(
        [np.arcsinh(a), np.arccosh(1 + np.abs(a)), np.arctanh(a / 8), np.hypot(a, b), np.copysign(a, b), np.nextafter(a, b)]
        + [np.ldexp(a, np.arange(N) % 5 - 2), a * b, 1 / a, np.minimum(np.maximum(a, -1), b), np.rint(a)]
    )
    results = run_everywhere(main, a, b, np.zeros_like(expected), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(expected, results[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_pairs_are_computed_lane_by_lane(dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((7, N), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.serial(N // 2):
                x, y = A[T.Ramp(2 * i, 1, 2)], B[T.Ramp(2 * i, 1, 2)]
                C[0, T.Ramp(2 * i, 1, 2)] = T.add2(x, y)
                C[1, T.Ramp(2 * i, 1, 2)] = T.sub2(x, y)
                C[2, T.Ramp(2 * i, 1, 2)] = T.mul2(x, y)
                C[3, T.Ramp(2 * i, 1, 2)] = T.max2(x, y)
                C[4, T.Ramp(2 * i, 1, 2)] = T.min2(x, y)
                C[5, T.Ramp(2 * i, 1, 2)] = T.fma2(x, y, x)
                C[6, T.Ramp(2 * i, 1, 2)] = T.abs2(x)

    a, b = (np.random.randint(-8, 8, N).astype(dtype) for _ in range(2))
    expected = np.stack([a + b, a - b, a * b, np.maximum(a, b), np.minimum(a, b), a * b + a, np.abs(a)])
    np.testing.assert_array_equal(expected, run_everywhere(main, a, b, np.zeros_like(expected))[2])


def test_find_first_set_counts_from_one_and_nth_set_from_a_base():
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = T.__ffs(T.__ldg(A[i])) + T.__ffs(T.__ldg(A, i)) * 0
                B[i] += 64 * T.cast(T.__fns(T.cast(A[i], "uint32"), 31, -2) + 1, "int32")

    a = np.where(np.arange(N) < 33, 1 << np.minimum(np.arange(N), 31), 6 * np.arange(N)).astype(np.int64).astype(np.int32)
    a[0] = 0
    second = [([place for place in range(31, -1, -1) if int(x) >> place & 1] + [-1, -1])[1] for x in a]
    expected = [64 * (s + 1) + (0 if x == 0 else (int(x) & -int(x)).bit_length()) for x, s in zip(a, second, strict=True)]
    np.testing.assert_array_equal(expected, run_everywhere(main, a, np.zeros_like(a))[1])


def test_on_numbers_the_result_is_a_number():
    assert (3, 12, 2.5) == (T.cdiv(5, 2), T.align_up(9, 4), T.fabs(-2.5))


def staged(body):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), I: T.Tensor((8,), "int32"), H: T.Tensor((8,), "float16")):
        with T.Kernel(1, threads=1):
            T.evaluate(body(A, I, H))


RAMP = T.Ramp(0, 1, 2)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (lambda A, I, H: T.add2(A[0], A[1]), TypeError, "T.add2: needs vectors of two, got float32"),
        (lambda A, I, H: T.mul2(I[RAMP], I[RAMP]), ValueError, "T.mul2: needs one of float32x2, float16x2, bfloat16x2"),
        (lambda A, I, H: T.fma2(A[RAMP], A[RAMP], H[RAMP]), ValueError, "the operands must have the same dtype"),
        (lambda A, I, H: T.__fns(A[0], 0, 1), tilelang.TileLangError, "T.__fns: needs integers of at most 32 bits, got float32"),
        (lambda A, I, H: T.__ffs(A[0]), TypeError, "T.__ffs: needs an integer, got float32"),
        (lambda A, I, H: T.__ldg(A[0] + 1), TypeError, "T.__ldg: expected an element"),
        (lambda A, I, H: T.__exp(I[0]), TypeError, "T.__exp only supports floating-point inputs, but got int32"),
        (lambda A, I, H: T.round(A[0], "up"), ValueError, "T.round: Invalid rounding mode 'up'"),
        (lambda A, I, H: T.exp(A[0], dtype="float16"), ValueError, "T.exp: dtype=float16, but the value is float32"),
        (lambda A, I, H: T.exp(y=A[0]), TypeError, "unexpected keyword argument 'y'"),
    ],
)
def test_operands_that_do_not_fit_are_refused(body, kind, message):
    with pytest.raises(kind) as raised:
        staged(body)
    assert message in str(raised.value)


def test_half_an_integer_goes_where_the_mode_says():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = T.round(A[i], rounding_mode="ties-away-from-zero")

    a = np.concatenate([np.arange(-16, 16) / 2, [0.49999997, -0.49999997, 8388609.0], np.zeros(29)]).astype(np.float32)
    expected = np.trunc(a) + np.where(np.abs(a - np.trunc(a)) >= 0.5, np.sign(a), 0)
    np.testing.assert_array_equal(expected, run_everywhere(main, a, np.zeros_like(a))[1])
