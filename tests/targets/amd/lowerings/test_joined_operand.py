"""Operands in fragments on gfx11: held once, and exchanged between the halves of a wave before they are multiplied."""

import importlib.util

import numpy as np
import pytest
from harness import run_reference_on_copies
from hip_kernels import needs_clang

import tilelang
import tilelang.language as T
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.sim.run import simulate
from tilelang.targets.target import Target

needs_decoder = pytest.mark.skipif(importlib.util.find_spec("tinygrad") is None, reason="needs tinygrad's decoder")
DTYPES = [("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("uint4", "int32")]


def chain(dtype, accum, rows=32, keys=48, columns=32):
    """(A @ B.T) @ C, whose first product stays in registers."""

    @T.prim_func
    def main(A: T.Tensor((rows, 32), dtype), B: T.Tensor((keys, 32), dtype), C: T.Tensor((keys, columns), dtype),
             D: T.Tensor((rows, columns), accum)):  # fmt: skip
        with T.Kernel(1, threads=64):
            first, second = T.alloc_fragment((rows, 32), dtype), T.alloc_shared((keys, 32), dtype)
            third = T.alloc_shared((keys, columns), dtype)
            sums, weights = T.alloc_fragment((rows, keys), accum), T.alloc_fragment((rows, keys), dtype)
            out = T.alloc_fragment((rows, columns), accum)
            T.copy(A, first)
            T.copy(B, second)
            T.copy(C, third)
            T.clear(out)
            T.gemm(first, second, sums, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(rows, keys):
                weights[i, j] = T.cast(T.min(T.max(sums[i, j], -2), 2), dtype)
            T.gemm(weights, third, out, policy=T.GemmWarpPolicy.FullRow)
            T.copy(out, D)

    return main


def arguments(func):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 3, p.buffer.static_shape).astype(p.buffer.dtype.numpy) for p in func.params]


@pytest.mark.parametrize(("dtype", "accum"), DTYPES)
def test_a_chain_of_products_is_simulated_right(dtype, accum):
    func, target = chain(dtype, accum), Target("hip", "gfx1100")
    actual = arguments(func)
    expected = run_reference_on_copies(func, actual)
    simulate(lowered(func, target, CompileOptions()), actual, target=target)
    np.testing.assert_array_equal(expected[3], actual[3])


@needs_clang
@needs_decoder
@pytest.mark.parametrize(("dtype", "accum"), DTYPES[::2])
def test_the_code_of_a_chain_exchanges_registers_and_computes_right(dtype, accum):
    from amd_execution import execute

    func = chain(dtype, accum)
    kernel = tilelang.compile(func, target={"kind": "hip", "arch": "gfx1100"})
    assert "v_permlanex16_b32" in kernel.get_sass()
    assert "weights_shared" not in kernel.get_kernel_source()
    actual = arguments(func)
    expected = run_reference_on_copies(func, actual)
    execute(kernel._runner.code, actual)
    np.testing.assert_array_equal(expected[3], actual[3])
