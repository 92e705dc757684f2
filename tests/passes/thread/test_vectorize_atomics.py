from importlib import import_module

import numpy as np
import pytest
from harness import assert_same, run_reference_on_copies, simulate_on_copies

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import Atomic
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.target import Target

ROWS, WIDTH = 8, 32


def scattering(case="", dtype="float32", width=WIDTH, lanes=4):
    """Adds rows of A to rows of O that indices choose, some of which do not exist."""
    add = {2: T.atomic_addx2, 4: T.atomic_addx4}[lanes]

    @T.prim_func
    def main(I: T.Tensor((ROWS,), "int32"), A: T.Tensor((ROWS, WIDTH), dtype), O: T.Tensor((16, width), dtype)):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((ROWS, WIDTH), dtype)
            T.copy(A, s)
            for i, j in T.Parallel(ROWS, WIDTH // lanes):
                if case == "shifted":
                    add(O[I[i], j * lanes + 1], s[i, j * lanes])
                elif case == "computed":
                    for n in T.unroll(lanes):
                        T.atomic_add(O[I[i], j * lanes + n], s[i, j * lanes + n] * 2)
                elif case == "ordered":
                    for n in T.unroll(lanes):
                        T.atomic_add(O[I[i], j * lanes + n], s[i, j * lanes + n], memory_order="release")
                elif case == "looked at":
                    for n in T.unroll(lanes):
                        T.atomic_add(O[I[i], j * lanes + n], O[0, 0] * 0)
                else:
                    add(O[I[i], j * lanes], s[i, j * lanes])

    return main


def sums(dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), dtype)):
        with T.Kernel(2, threads=32) as bx:
            a = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, transpose_B=True, clear_accum=True)
            T.atomic_add(C, c)

    return main


def joined(func, arch="sm_90"):
    """How many elements the additions of a program change, in program order."""
    passes = import_module("tilelang.targets.nvidia.backend").BACKEND.passes
    lowered = run_passes(func, passes, PassContext(target=Target("cuda", arch)))
    return [s.value.dtype.lanes for s in walk(lowered.body) if isinstance(s, Atomic) and s.value is not None]


def check(func, *arguments):
    for arch in ("sm_80", "sm_90"):
        expected = run_reference_on_copies(func, arguments)
        for want, got in zip(expected, simulate_on_copies(func, arguments, arch), strict=True):
            assert_same(want, got, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("case", "dtype", "width", "lanes", "expected"),
    [
        ("", "float32", WIDTH, 4, {4}),
        ("", "float32", WIDTH + 4, 4, {4}),
        ("", "float32", WIDTH + 2, 4, {2}),
        ("", "float32", WIDTH + 1, 4, {1}),
        ("", "float32", WIDTH, 2, {2}),
        ("", "float16", WIDTH, 2, {2}),
        ("", "bfloat16", WIDTH, 4, {4}),
        ("", "int32", WIDTH, 4, {1}),
        ("", "float64", WIDTH, 4, {1}),
        ("shifted", "float32", WIDTH, 4, {1, 2}),
        ("computed", "float32", WIDTH, 4, {4}),
        ("ordered", "float32", WIDTH, 4, {1}),
        ("looked at", "float32", WIDTH, 4, {1}),
    ],
)
def test_additions_to_neighbors_are_one_where_they_are_aligned(case, dtype, width, lanes, expected):
    func = scattering(case, dtype, width, lanes)
    assert expected == set(joined(func))
    if case != "looked at":
        numpy = tilelang.dtypes.as_dtype(dtype).numpy
        index = np.array([3, 15, 0, 16, 3, -1, 2, 7], np.int32)
        a = (np.arange(ROWS * WIDTH) % 13).reshape(ROWS, WIDTH).astype(numpy)
        check(func, index, a, np.ones((16, width), numpy))


@pytest.mark.parametrize(("dtype", "expected"), [("float32", {2}), ("float64", {1})])
def test_sums_of_products_are_added_in_pairs(dtype, expected):
    func = sums(dtype)
    assert expected == set(joined(func))
    a = np.random.default_rng(0).integers(-3, 4, (32, 32)).astype(np.float16)
    check(func, a, np.zeros((32, 32), np.dtype(dtype)))


def test_the_text_adds_vectors_from_where_they_lie():
    text = tilelang.compile(scattering(), target={"kind": "cuda", "arch": "sm_90"}).get_kernel_source()
    assert "tl_atomic_add_float32x4(&O[I_[" in text
    assert "*(const uint4*)&s[" in text
    assert "atomicAdd(&O" not in text
