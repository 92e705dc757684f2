"""Sorting networks and folds by threads."""

import numpy as np
import pytest
from device_text import needs_cuda_compiler
from harness import run_cpu_on_copies, run_reference_on_copies
from simt import assert_threads_agree, ints

import tilelang
import tilelang.language as T


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("shape", "threads"), [((1, 1), 32), ((3, 5), 1), ((2, 21), 80), ((6,), 32)])
def test_lines_of_any_length(shape, threads):
    first = (*shape[:-1], 1)

    @T.prim_func
    def f(
        A: T.Tensor(shape, "float32"),
        B: T.Tensor((2, *shape), "float32"),
        I: T.Tensor((2, *shape), "int32"),
        J: T.Tensor((2, *first), "int32"),
    ):
        with T.Kernel(1, threads=threads) as _:
            r, i = T.alloc_fragment(shape, "float32"), T.alloc_fragment(shape, "int32")
            T.copy(A, r)
            T.topk(r, 1, None, J[0, ...], largest=False)
            T.topk(r, 1, None, J[1, ...])
            T.topk(r, shape[-1], None, I[1, ...])
            T.sort(r, descending=True)
            T.copy(r, B[0, ...])
            T.copy(A, r)
            T.sort(r, indices=i)
            T.copy(r, B[1, ...])
            T.copy(i, I[0, ...])

    values = ints(*shape)
    values.ravel()[::5] = np.nan
    results = np.zeros((2, *shape), np.float32), np.zeros((2, *shape), np.int32), np.zeros((2, *first), np.int32)
    assert_threads_agree(f, values, *results)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
@pytest.mark.parametrize("shape", [(20, 13), (3, 6, 5)])
def test_one_thread_finds_the_first_of_many_rows(shape: tuple[int, ...], dtype: str, largest: bool) -> None:
    count = 4

    @T.prim_func
    def f(A: T.Tensor(shape, dtype), B: T.Tensor((*shape[:-1], count), dtype), I: T.Tensor((*shape[:-1], count), "int32")):
        with T.Kernel(1) as _:
            a = T.alloc_shared(shape, dtype)
            T.copy(A, a)
            T.topk(a, count, B, I, largest=largest)

    values = np.random.default_rng(0).integers(-3, 4, shape).astype(tilelang.dtypes.as_dtype(dtype).numpy)
    if values.dtype.kind == "f":
        values.ravel()[::5], values.ravel()[::7], values.ravel()[1::9] = np.nan, -np.inf, np.inf
    arguments = [values, np.zeros((*shape[:-1], count), values.dtype), np.zeros((*shape[:-1], count), np.int32)]
    for found, want in zip(run_cpu_on_copies(f, arguments), run_reference_on_copies(f, arguments), strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float4_e2m1fn", "float8_e4m3fn", "float8_e5m2", "bool"])
def test_padding_comes_after_all_keys_of_a_dtype(dtype, descending):
    @T.prim_func
    def f(A: T.Tensor((3, 5), dtype), B: T.Tensor((3, 5), dtype), I: T.Tensor((3, 5), "int32")):
        with T.Kernel(1, threads=32) as _:
            a, i = T.alloc_shared((3, 5), dtype), T.alloc_shared((3, 5), "int32")
            T.copy(A, a)
            T.sort(a, indices=i, descending=descending)
            T.copy(a, B)
            T.copy(i, I)

    numpy_dtype = tilelang.dtypes.as_dtype(dtype).numpy
    values = np.array([[6, 6, 6, 6, 6], [-6, -6, -6, -6, -6], [1, -6, 0, 6, 2]]).astype(numpy_dtype)
    assert_threads_agree(f, values, np.zeros((3, 5), numpy_dtype), np.zeros((3, 5), np.int32))


@needs_cuda_compiler
def test_the_text_does_not_grow_with_the_line_and_spills_nothing():
    @T.prim_func
    def f(A: T.Tensor((1024,), "float16"), K: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=256) as _:
            a = T.alloc_shared((1024,), "float16")
            T.copy(A, a)
            T.topk(a, 16, None, K)
            T.sort(a)
            T.copy(a, A)

    kernel = tilelang.compile(f, target={"kind": "cuda", "arch": "sm_80"})
    assert len(kernel.get_kernel_source().splitlines()) < 600
    assert 0 == kernel.resources.spill_bytes
