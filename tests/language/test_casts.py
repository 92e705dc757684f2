"""Casts round as their mode says and saturate unless told otherwise, on every executor."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from harness import run_everywhere

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering
from tilelang.ir.expr import Const

N = 96
NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float8_e5m2": ml_dtypes.float8_e5m2}


def values():
    scale = np.exp2(np.random.randint(-20, 12, N)).astype(np.float32)
    some = np.random.uniform(-1, 1, N).astype(np.float32) * scale
    some[:6] = [0.0, -0.0, 1e-9, -1e-9, 1.0, -2.5]
    return some


def rounded(x, dtype, mode):
    """The value of a dtype that a rounding mode chooses, by exact arithmetic."""
    near = np.asarray(x).astype(dtype)
    exact, back = Fraction(float(x)), Fraction(float(near))
    if mode == "rz":
        wrong = abs(back) > abs(exact)
    else:
        wrong = back < exact if mode == "rp" else back > exact
    if not wrong:
        return near
    towards = {"rz": 0.0, "rp": np.inf, "rm": -np.inf}[mode]
    return ml_dtypes_nextafter(near, towards)


def ml_dtypes_nextafter(x, towards):
    return np.nextafter(x, np.asarray(towards).astype(x.dtype))


@pytest.mark.parametrize("dtype", NARROW)
def test_directed_rounding_is_that_of_exact_arithmetic(dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((3, N), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[0, i] = T.cast(A[i], dtype, round="rz")
                B[1, i] = T.cast(A[i], dtype, "rp")
                B[2, i] = T.cast(dtype, A[i], round="rm")

    a = values()
    result = run_everywhere(main, a, np.zeros((3, N), NARROW[dtype]))[1].astype(np.float32)
    for row, mode in zip(result, ("rz", "rp", "rm"), strict=True):
        np.testing.assert_array_equal([np.float32(rounded(x, NARROW[dtype], mode)) for x in a], row)


def test_narrow_floats_saturate_unless_told_otherwise():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[0, i] = T.cast(A[i], "float8_e4m3fn")
                B[1, i] = T.cast(A[i], "float8_e4m3fn", sat=False)
                B[2, i] = T.cast(A[i], "float8_e5m2", sat=True)
                B[3, i] = T.cast(A[i], "float8_e5m2", sat=False)

    a = np.array([1e9, -500.0, np.nan, np.inf], np.float32)
    nan, inf = np.nan, np.inf
    expected = [[448, -448, nan, 448], [nan, nan, nan, nan], [57344, -512, nan, 57344], [inf, -512, nan, inf]]
    np.testing.assert_array_equal(np.float32(expected), run_everywhere(main, a, np.zeros((4, 4), np.float32))[1])


def test_outside_of_a_kernel_a_cast_is_an_expression():
    made = T.cast(1000.0, "float8_e4m3fn")
    assert isinstance(made, Const)
    assert 448.0 == made.value


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"round": "up"}, ValueError, "T.cast: Invalid round 'up'"),
        ({"sat": "invalid"}, ValueError, "T.cast: Invalid sat 'invalid'"),
        ({"round": "rs"}, ValueError, "rbits is required"),
        ({"rbits": 1}, ValueError, "rbits is only valid"),
    ],
)
def test_modes_that_do_not_exist_are_refused(options, kind, message):
    with pytest.raises(kind) as raised:
        T.cast(T.float32(1.0), "float16", **options)
    assert message in str(raised.value)
    assert isinstance(raised.value, ValueError | RuntimeError)


@pytest.mark.parametrize(
    ("dtype", "shown"), [("float16", "FP16"), ("bfloat16", "BF16"), ("float8_e5m2", "FP8"), ("float4_e2m1fn", "FP4")]
)
def test_stochastic_rounding_is_refused_when_a_kernel_is_compiled(dtype, shown):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = T.cast(A[i], dtype, round="rs", rbits=T.uint32(3))

    for options in (
        {"target": "cpu"},
        {"target": "cpu", "execution_backend": "reference"},
        {"target": {"kind": "cuda", "arch": "sm_90a"}, "execution_backend": "simulator"},
        {"target": {"kind": "cuda", "arch": "sm_100a"}},
    ):
        with pytest.raises(RuntimeError, match=f"Stochastic rounding f32-to-{shown} requires sm_100a") as raised:
            tilelang.compile(main, **options)
        assert isinstance(raised.value, NoLowering)
        assert "B[i] = T.cast" in str(raised.value)
