"""Gemms by wgmma in kernels without warp specialization, against the reference, with late and early completion."""

from types import MappingProxyType

import numpy as np
import pytest
from device_text import needs_cuda_compiler
from gpu import SCHEDULES
from harness import assert_same, run_reference_on_copies
from tiled_gemm import tiled_gemm

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.lowering import by_loop
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.run import simulate
from tilelang.targets.nvidia import pipelines
from tilelang.targets.nvidia.backend import LOWERINGS
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.lowerings.copy_async import AsyncCopy
from tilelang.targets.nvidia.lowerings.gemm_mma import GemmMma
from tilelang.targets.nvidia.lowerings.gemm_wgmma import GemmWgmma
from tilelang.targets.nvidia.runtime.device_code import build
from tilelang.targets.target import Target

TARGET = Target("cuda", "sm_90a")
TABLE = MappingProxyType({**LOWERINGS, Copy: (AsyncCopy(), by_loop.COPY), Gemm: (GemmWgmma(), GemmMma())})


def lower(func):
    lowered = run_passes(func, pipelines.passes(TABLE), PassContext(target=TARGET))
    calls = [s.routine for s in walk(lowered.body) if isinstance(s, CallStmt)]
    assert any(routine.async_unit is WGMMA for routine in calls)
    return lowered


def check(func, *arguments, schedules=SCHEDULES[:2]):
    expected, lowered = run_reference_on_copies(func, arguments), lower(func)
    for lazy, seed in schedules:
        actual = [np.array(argument) for argument in arguments]
        simulate(lowered, actual, target=TARGET, lazy=lazy, seed=seed)
        for want, got in zip(expected, actual, strict=True):
            assert_same(want, got, 1e-5, 1e-6)


def ints(*shape, dtype="float16", seed=0):
    low = 0 if dtype.startswith("uint") else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(as_dtype(dtype).numpy)


def product(m, n, k, tile, *, a=False, b=False, stages=2, **options):
    """A gemm with transposed operands if `a`, or `b`."""
    return tiled_gemm((m, n, k), tile, trans_a=a, trans_b=b, num_stages=stages, **options)


CASES = [
    ((64, 128, 96), (64, 64, 32), {}),
    ((64, 64, 96), (64, 64, 32), {"a": True, "b": True, "stages": 3}),
    ((100, 72, 40), (64, 64, 32), {}),  # beyond the edges lie zeros
    ((128, 96, 64), (128, 96, 32), {"threads": 256, "b": True}),
    ((100, 64, 96), (48, 64, 32), {}),
    ((96, 64, 64), (96, 64, 32), {"threads": 256, "a": True}),
    ((64, 192, 64), (64, 192, 32), {"threads": 256, "dtype": "bfloat16", "out": "float32"}),
    ((64, 64, 128), (64, 64, 64), {"dtype": "int8", "accum": "int32", "out": "int32", "b": True}),
    ((64, 32, 64), (64, 32, 32), {"dtype": "tfloat32", "out": "float32", "b": True}),
    ((64, 32, 64), (64, 32, 64), {"dtype": "float8_e4m3fn", "out": "float32", "b": True, "stages": 1}),
]


def arguments(sizes, options):
    m, n, k = sizes
    dtype = options.get("dtype", "float16")
    a = ints(*((k, m) if options.get("a") else (m, k)), dtype=dtype)
    b = ints(*((n, k) if options.get("b") else (k, n)), dtype=dtype, seed=1)
    return a, b, np.zeros((m, n), as_dtype(options.get("out", "float16")).numpy)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("sizes", "tile", "options"), CASES)
def test_tiled_products(sizes, tile, options):
    check(product(*sizes, tile, **options), *arguments(sizes, options))


@pytest.mark.slow(every=12)
@needs_cuda_compiler
@pytest.mark.parametrize(("sizes", "tile", "options"), CASES[:8])
def test_tiled_products_compile_without_waits_between_their_instructions(sizes, tile, options):
    made = build(emit(lower(product(*sizes, tile, **options))), TARGET.arch, "nvrtc")
    (used,) = made.resources.values()
    assert (0, False, ()) == (used.spill_bytes, used.serialized, made.warnings)


def attention(rows, keys, width, block):
    """Softmax without its maximum: the sums of one product are an operand of the next, in registers."""

    @T.prim_func
    def main(
        Q: T.Tensor((rows, width), "float16"),
        K: T.Tensor((keys, width), "float16"),
        V: T.Tensor((keys, width), "float16"),
        O: T.Tensor((rows, width), "float32"),
    ):
        with T.Kernel(1, threads=128):
            Q_s = T.alloc_shared((rows, width), "float16")
            K_s = T.alloc_shared((block, width), "float16")
            V_s = T.alloc_shared((block, width), "float16")
            scores = T.alloc_fragment((rows, block), "float32")
            weights = T.alloc_fragment((rows, block), "float16")
            total = T.alloc_fragment((rows,), "float32")
            sums = T.alloc_fragment((rows, width), "float32")
            T.copy(Q, Q_s)
            T.clear(sums)
            T.clear(total)
            for k in T.Pipelined(keys // block, num_stages=2):
                T.copy(K[k * block, 0], K_s)
                T.gemm(Q_s, K_s, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(rows, block):
                    scores[i, j] = scores[i, j] * 0.25
                T.reduce_sum(scores, total, dim=1, clear=False)
                T.copy(scores, weights)
                T.copy(V[k * block, 0], V_s)
                T.gemm(weights, V_s, sums)
            for i, j in T.Parallel(rows, width):
                sums[i, j] = sums[i, j] + total[i]
            T.copy(sums, O)

    return main


def test_sums_of_one_product_are_an_operand_of_the_next():
    func = attention(64, 64, 32, 32)
    text = str(lower(func))
    assert "f16_rn(" in text  # the places of A and B: in registers, with N contiguous
    assert "weights_r" not in text
    check(func, ints(64, 32), ints(64, 32, seed=1), ints(64, 32, seed=2), np.zeros((64, 32), np.float32))


@needs_cuda_compiler
def test_chained_products_compile_without_waits_between_their_instructions():
    made = build(emit(lower(attention(64, 1024, 64, 64))), TARGET.arch, "nvrtc")
    (used,) = made.resources.values()
    assert (0, False, ()) == (used.spill_bytes, used.serialized, made.warnings)


def test_one_tile_in_both_orders():
    @T.prim_func
    def main(X: T.Tensor((64, 64), "float16"), Y: T.Tensor((64, 64), "float32"), Z: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            first = T.alloc_fragment((64, 64), "float32")
            second = T.alloc_fragment((64, 64), "float32")
            T.copy(X, tile)
            T.gemm(tile, tile, first, transpose_B=True, clear_accum=True)
            T.gemm(tile, tile, second, transpose_A=True, clear_accum=True)
            T.copy(first, Y)
            T.copy(second, Z)

    assert "gemm.mma" not in str(lower(main))
    check(main, ints(64, 64), np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32))
