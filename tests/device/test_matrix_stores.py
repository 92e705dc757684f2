"""Stores of tiles to shared memory by `stmatrix` on a GPU, in each order and width."""

import numpy as np
import pytest
from device_launch import GPUS, architecture, needs_gpu

import tilelang
import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.testing import to_device, to_host

pytestmark = [
    needs_gpu,
    pytest.mark.skipif(GPUS > 0 and architecture() != "sm_90a", reason="needs a Hopper GPU"),
]


def product(rows, columns, dtype, *, turned, layout):
    """Sums of one product, doubled on their way to a shared tile; by columns if `turned`."""
    shape = (columns, rows) if turned else (rows, columns)

    @T.prim_func
    def main(
        A: T.Tensor((rows, 64), dtype), B: T.Tensor((64, columns), dtype), bias: T.Tensor((columns,), "float32"),
        C: T.Tensor(shape, dtype),
    ):
        with T.Kernel(1, threads=128):
            A_s, B_s = T.alloc_shared((rows, 64), dtype), T.alloc_shared((64, columns), dtype)
            C_s = T.alloc_shared(shape, dtype)
            C_f = T.alloc_fragment((rows, columns), "float32")
            if layout == "swizzled":
                T.annotate_layout({C_s: T.make_swizzled_layout(C_s)})
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.clear(C_f)
            T.gemm(A_s, B_s, C_f)
            for i, j in T.Parallel(rows, columns):
                if turned:
                    C_s[j, i] = C_f[i, j] * 2 + bias[j]
                else:
                    C_s[i, j] = C_f[i, j] * 2 + bias[j]
            T.copy(C_s, C)

    return main


@pytest.mark.parametrize("wgmma", [True, False])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("columns", "layout"), [(64, "as chosen"), (128, "swizzled"), (24, "as chosen")])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_element_arrives(dtype, columns, layout, turned, wgmma):
    func = product(64, columns, dtype, turned=turned, layout=layout)
    configs = {"tl.disable_wgmma": not wgmma}
    kernel = tilelang.compile(func, out_idx=[3], target="cuda", pass_configs=configs)
    assert "stmatrix" in kernel.get_kernel_source()
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((64, 64), (64, columns)))
    bias = rng.integers(-8, 9, columns).astype(np.float32)
    expected = a @ b * 2 + bias
    operand = as_dtype(dtype).numpy
    got = to_host(kernel(*to_device(a.astype(operand), b.astype(operand), bias, target="cuda")))
    np.testing.assert_array_equal(expected.T if turned else expected, got.astype(np.float32))
