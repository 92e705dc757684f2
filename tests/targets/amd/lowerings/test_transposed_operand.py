"""Operands that transposing reads load on gfx950: which they are, and what they give."""

import numpy as np
import pytest
from gpu import simulate_func

import tilelang.language as T
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.sim.counters import Counters
from tilelang.targets.amd.backend import BACKEND
from tilelang.targets.target import Target


def gemm(dtype, k=64, columns=64, depth=32, transpose_a=False, transpose_b=False):
    a_shape = (depth, 64) if transpose_a else (64, depth)
    b_shape = (columns, depth) if transpose_b else (depth, columns)

    @T.prim_func
    def main(
        A: T.Tensor((k, 64) if transpose_a else (64, k), dtype),
        B: T.Tensor((columns, k) if transpose_b else (k, columns), dtype),
        C: T.Tensor((64, columns), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared(a_shape, dtype), T.alloc_shared(b_shape, dtype)
            c = T.alloc_fragment((64, columns), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, depth), num_stages=2):
                T.copy(A[i * depth, 0] if transpose_a else A[0, i * depth], a)
                T.copy(B[0, i * depth] if transpose_b else B[i * depth, 0], b)
                T.gemm(a, b, c, transpose_A=transpose_a, transpose_B=transpose_b)
            T.copy(c, C)

    return main


def ints(*shape, dtype):
    return np.random.default_rng(0).integers(-4, 5, shape).astype(T.dtype(dtype).numpy)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    ("dtype", "sizes", "reads"),
    [
        ("float16", {}, True),
        ("bfloat16", {}, True),
        ("float16", {"transpose_a": True}, True),
        ("float16", {"transpose_a": True, "transpose_b": True}, True),
        ("float16", {"transpose_b": True}, False),  # K is contiguous in both
        ("float16", {"k": 72}, True),
        ("float16", {"columns": 36}, True),
        ("float16", {"columns": 34}, False),  # rows of LDS that are no whole reads
        ("float32", {}, False),
    ],
)
def test_operands_whose_rows_are_contiguous_are_read_transposed(dtype, sizes, reads):
    func = gemm(dtype, **sizes)
    arrays = [ints(*(extent for extent in param.buffer.static_shape), dtype=dtype) for param in func.params[:2]]
    a = arrays[0].T if sizes.get("transpose_a") else arrays[0]
    b = arrays[1].T if sizes.get("transpose_b") else arrays[1]
    counters = Counters()
    out = np.zeros((64, b.shape[1]), np.float32)
    got = simulate_func(func, [*arrays, out], "gfx950", report=counters)
    np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32), got[2])
    assert reads == (counters.instructions.get("read_transposed", 0) > 0)
    loads = counters.traffic["shared load"]
    assert not reads or "columns" in sizes or loads.transactions == loads.ideal  # rows of 64 are swizzled


def test_other_machines_permute_elements_in_registers():
    source = BACKEND.emit(lowered(gemm("float16"), Target("hip", "gfx942"), CompileOptions())).text
    assert "tl_read_transposed" not in source and "tl_columns_of_2" in source
