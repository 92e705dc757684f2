"""What tile operators do to single elements: atomic updates of whole tiles; other files test the moves."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_blocks_add_tiles_and_scalars_to_overlapping_regions(dtype):
    @T.prim_func
    def main(A: T.Tensor((5, 8), dtype), B: T.Tensor((5,), dtype), C: T.Tensor((5,), dtype)):
        with T.Kernel(12) as bx:
            s = T.alloc_shared((2, 8), dtype)
            T.fill(s, 2)
            T.atomic_add(A[bx % 5, 0], s)
            T.atomic_add(B[bx % 3 : bx % 3 + 4], 1)
            T.atomic_max(C, bx)  # of its own: add and max do not commute

    zeros = [np.zeros(shape, T.dtype(dtype).numpy) for shape in ((5, 8), 5, 5)]
    run_everywhere(main, *zeros, compile_flags="-O1")
