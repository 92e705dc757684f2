"""Atomic updates of whole tiles."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_blocks_add_tiles_and_scalars_to_overlapping_regions(dtype):
    @T.prim_func
    def main(A: T.Tensor((5, 8), dtype), B: T.Tensor((5,), dtype)):
        with T.Kernel(12) as bx:
            s = T.alloc_shared((2, 8), dtype)
            T.fill(s, 2)
            T.atomic_add(A[bx % 5, 0], s)
            T.atomic_add(B[bx % 3 : bx % 3 + 4], 1)
            T.atomic_max(B, 3)

    run_everywhere(main, np.zeros((5, 8), T.dtype(dtype).numpy), np.zeros(5, T.dtype(dtype).numpy), compile_flags="-O1")
