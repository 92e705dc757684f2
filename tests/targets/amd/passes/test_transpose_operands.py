"""Operands of gemms that go to LDS transposed, where K is not contiguous in global memory."""

import numpy as np
import pytest
from gpu import simulate_func
from hip_text import printed

import tilelang.language as T
from tilelang.sim.counters import Counters


def gemm(
    dtype="float16", *, n=128, tensor_n=0, depth=64, k=128, stages=2, transpose_a=False, threads=256, also="",
    accum="float32",
):  # fmt: skip
    a_shape = (depth, 128) if transpose_a else (128, depth)
    swizzled = T.Layout((depth, n), lambda i, j: (i, j ^ (i % 2 * 8)))

    @T.prim_func
    def main(
        A: T.Tensor((k, 128) if transpose_a else (128, k), dtype),
        B: T.Tensor((k, tensor_n or n), dtype),
        C: T.Tensor((128, n), accum),
    ):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared(a_shape, dtype), T.alloc_shared((depth, n), dtype)
            c = T.alloc_fragment((128, n), accum)
            if also == "layout":
                T.annotate_layout({b: swizzled})
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[i * depth, 0] if transpose_a else A[0, i * depth], a)
                T.copy(B[i * depth, 0], b)
                T.gemm(a, b, c, transpose_A=transpose_a)
                if also == "elements":
                    for row, column in T.Parallel(128, n):
                        c[row, column] += T.cast(b[0, column], accum) * 0
            T.copy(c, C)

    return main


def is_permuted_after_reads(func, arch):
    """Whether waves part the columns of an operand that they have read, in the text of a kernel."""
    return "tl_columns_of_" in printed(func, arch).text


KINDS = [
    ("float16", {}),
    ("bfloat16", {"depth": 64}),
    ("float16", {"transpose_a": True, "stages": 3}),
    ("float16", {"k": 144}),
    ("int8", {"accum": "int32", "depth": 128}),
    ("float32", {"depth": 32}),  # which RDNA multiplies by no matrix instructions
]


@pytest.mark.slow(every=20)
@pytest.mark.parametrize(
    ("dtype", "sizes", "arch"),
    [
        (*kind, arch)
        for kind in KINDS
        for arch in ("gfx90a", "gfx942", "gfx1100", "gfx1201")
        if kind[0] != "float32" or arch.startswith("gfx9")
    ],
)
def test_tiles_are_stored_as_matrix_instructions_take_them(dtype, sizes, arch):
    func = gemm(dtype, threads=256 if arch.startswith("gfx9") else 128, **sizes)
    assert not is_permuted_after_reads(func, arch)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, p.buffer.static_shape).astype(p.buffer.dtype.numpy) for p in func.params]
    a = arrays[0].T if sizes.get("transpose_a") else arrays[0]
    expected = a.astype(np.float32) @ arrays[1].astype(np.float32)
    report = Counters()
    found = simulate_func(func, arrays, arch, report=report)
    np.testing.assert_array_equal(expected, found[2].astype(np.float32))
    traffic = [report.traffic[name] for name in ("shared load", "shared store")]
    if dtype in ("float16", "bfloat16"):
        assert sum(each.ideal for each in traffic) == sum(each.transactions for each in traffic)


@pytest.mark.parametrize(
    ("arch", "more"),
    [
        ("gfx950", {}),  # which reads LDS transposed
        ("gfx942", {"also": "layout"}),
        ("gfx942", {"also": "elements"}),
        ("gfx942", {"tensor_n": 132}),  # rows of the tensor are no whole chunks
        ("gfx942", {"depth": 32}),  # blocks of threads have two rows only
        ("gfx942", {"stages": 0}),  # tiles that pass no registers of a loop
    ],
)
def test_other_tiles_stay(arch, more):
    assert is_permuted_after_reads(gemm(**more), arch) == (arch != "gfx950")
