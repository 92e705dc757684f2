"""Gemm operands get rows of multiples of 128 bytes where that costs little, and nothing else changes."""

import numpy as np
import pytest
from gpu import assert_simulates
from specialized import gemm_kernel, launch_of

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.targets.nvidia.passes.warp_specialization.pad_rows import pad_rows_to_swizzle_span


def tiles(launch):
    allocated = [s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED]
    return {tile.name: tile.static_shape for tile in allocated}


@pytest.mark.parametrize("columns,padded", [(224, 256), (160, 192), (176, 192), (208, 256), (104, 128), (112, 128)])
def test_rows_are_filled_up(columns, padded):
    launch = launch_of(gemm_kernel(512, 448, 256, bn=columns))
    made = pad_rows_to_swizzle_span(launch, ())
    assert {"A_s": (128, 64), "B_s": (64, padded)} == tiles(made)
    for copy in (s for s in walk(made.body) if isinstance(s, Copy) and s.dst.buffer.name == "B_s"):
        assert (64, columns) == copy.src.static_extent == copy.dst.static_extent
    (gemm,) = (s for s in walk(made.body) if isinstance(s, Gemm))
    assert (64, columns) == gemm.b.static_extent


@pytest.mark.parametrize("columns", [64, 128, 192, 256, 96, 80, 72, 48, 8])
def test_rows_stay_that_are_even_or_would_grow_much_or_are_short(columns):
    launch = launch_of(gemm_kernel(512, 448, 256, bn=columns))
    assert pad_rows_to_swizzle_span(launch, ()) is launch


def test_tiles_with_a_layout_of_their_own_stay():
    launch = launch_of(gemm_kernel(512, 448, 256, bn=224))
    fixed = [s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.name == "B_s"]
    assert pad_rows_to_swizzle_span(launch, fixed) is launch


def other_uses(use):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 224), "float16"), C: T.Tensor((64, 224), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 224), "float16")
            C_l = T.alloc_fragment((64, 224), "float32")
            T.clear(C_l)
            T.copy(A, A_s)
            T.copy(B, B_s)
            if use == "element":
                C_l[0, 0] = B_s[0, 0]
            if use == "second copy":
                T.copy(B, B_s)
            if use == "store":
                T.copy(B_s, C)
            T.gemm(A_s, B_s[:, 0:112] if use == "part" else B_s, C_l[:, 0:112] if use == "part" else C_l)
            T.copy(C_l, C)

    return launch_of(main)


@pytest.mark.parametrize("use", ["element", "second copy", "store", "part"])
def test_tiles_that_others_touch_stay(use):
    launch = other_uses(use)
    assert pad_rows_to_swizzle_span(launch, ()) is launch


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("sizes,tile", [((72, 248, 72), (64, 112, 64)), ((128, 232, 136), (128, 224, 64))])
def test_results_are_unchanged(sizes, tile):
    M, N, K = sizes
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    assert_simulates(gemm_kernel(M, N, K, *tile), a, b, np.zeros((M, N), np.float16), arch="sm_90a", seeds=(0,))
