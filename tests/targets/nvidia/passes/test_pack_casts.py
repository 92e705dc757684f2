"""Casts to float8 happen in pairs, and give what single ones give."""

import dataclasses

import numpy as np
import pytest
from gpu import lower_func
from harness import assert_same, run_reference_on_copies, simulate_on_copies

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.expr import Cast, Var, const
from tilelang.ir.stmt import For, ForKind, Seq
from tilelang.ir.visit import expressions, walk, walk_expr
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.passes import pack_casts
from tilelang.targets.target import Target


def casts(source, dtype):
    """Plain copies, a computed value, one through shared memory, and one whose neighbors other threads have."""

    @T.prim_func
    def f(X: T.Tensor((4, 64), source), Q: T.Tensor((3, 4, 64), dtype), C: T.Tensor((64, 4), dtype)):
        with T.Kernel(1, threads=32) as _:
            x, q = T.alloc_fragment((4, 64), source), T.alloc_fragment((4, 64), dtype)
            s = T.alloc_shared((4, 64), dtype)
            T.copy(X, x)
            T.copy(x, q)
            T.copy(q, Q[0, :, :])
            for i, j in T.Parallel(4, 64):
                q[i, j] = x[i, j] / (i + 1)
            T.copy(q, Q[1, :, :])
            T.copy(x, s)
            T.copy(s, Q[2, :, :])
            for i, j in T.Parallel(64, 4):
                C[i, j] = x[j, i]

    return f


def vector_casts(func):
    body = lower_func(func, "sm_90a").body
    found = (e for s in walk(body) for value in expressions(s) for e in walk_expr(value) if isinstance(e, Cast))
    return [str(e.dtype) for e in found if e.dtype.lanes > 1]


@pytest.mark.parametrize(
    ("source", "dtype"),
    [("float32", "float8_e4m3fn"), ("float32", "float8_e5m2"), ("float16", "float8_e5m2"), ("bfloat16", "float8_e4m3fn")],
)
def test_neighbors_are_cast_together_with_the_same_results(source, dtype):
    func = casts(source, dtype)
    x, q, c = (np.zeros(p.buffer.static_shape, p.buffer.dtype.numpy) for p in func.params)
    x.ravel()[:] = (np.random.default_rng(0).standard_normal(256) * 10.0 ** np.arange(-4, 4).repeat(32)).astype(x.dtype)
    x[0, :6] = [np.nan, np.inf, -np.inf, 464, 465, 61440]
    expected = run_reference_on_copies(func, [x, q, c])
    for want, got in zip(expected, simulate_on_copies(func, [x, q, c], "sm_90a"), strict=True):
        assert_same(want, got)
    assert 3 <= len([name for name in vector_casts(func) if name.startswith(dtype)])


def test_casts_to_16_bits_are_left_to_the_assembler():
    assert [] == [name for name in vector_casts(casts("float32", "float16")) if name.startswith("float16")]


def of_operand(dtype):
    """A tile of float32 that becomes an operand of wgmma in registers."""

    @T.prim_func
    def f(X: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), dtype), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            x, p = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), dtype)
            b, c = T.alloc_shared((64, 64), dtype), T.alloc_fragment((64, 64), "float32")
            T.copy(X, x)
            T.copy(B, b)
            T.copy(x, p)
            T.gemm(p, b, c, clear_accum=True)
            T.copy(c, C)

    return f


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_casts_to_operands_of_wgmma_are_packed(dtype):
    func = of_operand(dtype)
    assert f"{dtype}x2" in vector_casts(func)
    x, b = (np.random.default_rng(n).integers(-8, 8, (64, 64)) / 8 for n in range(2))
    x, b = (x + 1 / 4096).astype("f"), b.astype(func.params[1].buffer.dtype.numpy)
    arrays = [x, b, np.zeros((64, 64), "f")]
    expected = run_reference_on_copies(func, arrays)
    for want, got in zip(expected, simulate_on_copies(func, arrays, "sm_90a"), strict=True):
        np.testing.assert_allclose(want, got, rtol=1e-5, atol=1e-5)


def test_loops_of_which_nothing_is_left_stay():
    empty = For(Var("i", INT32, index=True), const(0, INT32), const(4, INT32), 1, ForKind.UNROLLED, Seq(()))
    func = dataclasses.replace(lower_func(casts("float32", "float16"), "sm_90a"), body=empty)
    assert pack_casts.PASS.run(func, PassContext(target=Target("cuda", "sm_90a"))).body is empty
