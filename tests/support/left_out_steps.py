"""A gemm that leaves out steps whose tiles are loaded."""

import numpy as np

import tilelang.language as T
from tilelang.ir.func import PrimFunc

TILES, STEPS, SIZE = 3, 5, 64


def left_out_steps() -> PrimFunc:
    """Tile n is the sum of those products that a mask names."""

    @T.prim_func
    def main(
        A: T.Tensor((SIZE, STEPS * SIZE), "float16"),
        B: T.Tensor((STEPS * SIZE, SIZE), "float16"),
        mask: T.Tensor((TILES, STEPS), "int32"),
        C: T.Tensor((TILES * SIZE, SIZE), "float32"),
    ):
        with T.Kernel(TILES, threads=128) as tile:
            A_s, B_s = T.alloc_shared((SIZE, SIZE), "float16"), T.alloc_shared((SIZE, SIZE), "float16")
            C_l = T.alloc_fragment((SIZE, SIZE), "float32")
            T.clear(C_l)
            for k in T.Pipelined(STEPS, num_stages=2):
                T.copy(A[0, k * SIZE], A_s)
                T.copy(B[k * SIZE, 0], B_s)
                if mask[tile, k] != 0:
                    T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[tile * SIZE, 0])

    return main


def masked_operands() -> tuple[list[np.ndarray], np.ndarray]:
    """A, B and the mask, and C."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((SIZE, STEPS * SIZE), (STEPS * SIZE, SIZE)))
    mask = np.array([[1, 0, 0, 1, 0], [0, 0, 1, 0, 0], [1, 1, 0, 0, 1]], np.int32)
    want = np.einsum("ikx,kxj,nk->nij", *(x.astype(np.float32) for x in (a.reshape(SIZE, STEPS, SIZE), b.reshape(STEPS, SIZE, SIZE), mask)))
    return [a, b, mask], want.reshape(TILES * SIZE, SIZE)
