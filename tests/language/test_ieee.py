"""Correctly rounded arithmetic gives the same bits on every executor."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang
import tilelang.language as T

N = 40
MODES = ("rn", "rz", "ru", "rd")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_operation_and_mode_agrees_bit_for_bit(dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((4, 7, N), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                for m, mode in enumerate(MODES):
                    C[m, 0, i] = T.ieee_add(A[i], B[i], mode)
                    C[m, 1, i] = T.ieee_sub(A[i], B[i], mode)
                    C[m, 2, i] = T.ieee_mul(A[i], B[i], mode)
                    C[m, 3, i] = T.ieee_fmaf(A[i], B[i], A[i], mode)
                    C[m, 4, i] = T.ieee_frcp(A[i], mode)
                    C[m, 5, i] = T.ieee_fsqrt(A[i] * A[i], mode)
                    C[m, 6, i] = T.ieee_fdiv(A[i], B[i], rounding_mode=mode)

    a, b = (np.random.uniform(-9, 9, N).astype(dtype) for _ in range(2))
    result = run_everywhere(main, a, b, np.zeros((4, 7, N), dtype), rtol=0, atol=0)[2]
    np.testing.assert_array_equal(a + b, result[0, 0])
    assert (result[3] <= result[2]).all()
    tilelang.compile(main, target={"kind": "cuda", "arch": "sm_90a"})


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (lambda A, H, D: T.ieee_add(A[0], A[0], "up"), ValueError, "T.ieee_add: Invalid rounding mode 'up'"),
        (lambda A, H, D: T.ieee_mul(H[0], H[0], "rz"), ValueError, "Only rounding mode 'rn' is available for half precision"),
        (lambda A, H, D: T.ieee_frsqrt(D[0]), ValueError, "frsqrt is not supported for float64"),
        (lambda A, H, D: T.ieee_frcp(T.int32(3)), TypeError, "T.ieee_frcp: needs floats, got int32"),
    ],
)
def test_modes_and_dtypes_that_do_not_exist(body, kind, message):
    with pytest.raises(kind) as raised:

        @T.prim_func
        def main(A: T.Tensor((1,), "float32"), H: T.Tensor((1,), "float16"), D: T.Tensor((1,), "float64")):
            with T.Kernel(1):
                T.evaluate(body(A, H, D))

    assert message in str(raised.value)
