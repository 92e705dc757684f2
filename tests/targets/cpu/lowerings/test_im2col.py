"""im2col tiles at the borders of image and matrix."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T


@pytest.mark.parametrize(("kernel", "stride", "dilation", "pad"), [(3, 1, 1, 1), (2, 2, 1, 0), (3, 2, 2, 3), (5, 1, 1, 0)])
def test_every_tile(kernel, stride, dilation, pad):
    @T.prim_func
    def main(X: T.Tensor((2, 4, 5, 3), "int32"), M: T.Tensor((4, 3, 16, 24), "int32")):
        with T.Kernel(3, 4) as (bx, by):
            s = T.alloc_shared((16, 24), "int32")
            T.c2d_im2col(X, s, by, bx, kernel, stride, dilation, pad)
            T.copy(s, M[by, bx, :, :])

    x = np.arange(1, 121, dtype=np.int32).reshape(2, 4, 5, 3)
    run_everywhere(main, x, np.zeros((4, 3, 16, 24), np.int32), compile_flags="-O1")


@pytest.mark.parametrize("dtype", ["int64", "uint32", "uint8"])
def test_tiles_whose_numbers_are_no_int32(dtype):
    @T.prim_func
    def main(X: T.Tensor((2, 4, 5, 3), "int32"), where: T.Tensor((4,), dtype), M: T.Tensor((4, 16, 27), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((16, 27), "int32")
            column = T.alloc_var(dtype, init=1)
            for k in T.serial(4):
                T.c2d_im2col(X, s, where[k] % 3, column % 2, 3, 1, 1, 1)
                T.copy(s, M[k, :, :])
                column += 1

    x, where = np.arange(1, 121, dtype=np.int32).reshape(2, 4, 5, 3), np.array([0, 2, 1, 5], dtype)
    run_everywhere(main, x, where, np.zeros((4, 16, 27), np.int32), compile_flags="-O1")
