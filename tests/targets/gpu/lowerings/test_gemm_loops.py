"""Gemms of symbolic sizes."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, True)])
@pytest.mark.parametrize(
    ("dtype", "other", "accum"),
    [
        ("float16", "float16", "float32"),
        ("int8", "int8", "int32"),
        ("float8_e5m2", "float8_e4m3fn", "float32"),
        ("float32", "bfloat16", "float32"),
    ],
)
def test_a_gemm_of_regions_of_symbolic_size(dtype, other, accum, transpose_a, transpose_b, clear):
    m, n, k = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")
    shape_a, shape_b = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)

    @T.prim_func
    def main(A: T.Tensor(shape_a, dtype), B: T.Tensor(shape_b, other), C: T.Tensor((m, n), accum)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 16), dtype)
            b = T.alloc_shared((16, 16), other)
            c = T.alloc_shared((16, 16), accum)
            T.copy(A, a[0 : shape_a[0], 0 : shape_a[1]])
            T.copy(B, b[0 : shape_b[0], 0 : shape_b[1]])
            T.copy(C, c[0:m, 0:n])
            T.gemm(
                a[0 : shape_a[0], 0 : shape_a[1]],
                b[0 : shape_b[0], 0 : shape_b[1]],
                c[0:m, 0:n],
                transpose_A=transpose_a,
                transpose_B=transpose_b,
                clear_accum=clear,
            )
            T.copy(c[0:m, 0:n], C)

    sizes = {"m": 7, "n": 5, "k": 9}
    arguments = [
        np.random.randint(-3, 4, tuple(sizes[e.name] for e in shape)).astype(T.dtype(name).numpy)
        for shape, name in ((shape_a, dtype), (shape_b, other), ((m, n), accum))
    ]
    run_everywhere(main, *arguments)
