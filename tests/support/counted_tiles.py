"""Tiles of a gemm of which only run time tells how many steps they take, or that there are none."""

from collections.abc import Sequence

import numpy as np

import tilelang.language as T
from tilelang.ir.func import PrimFunc

SIZE, MOST_STEPS = 64, 8


def counted_tiles(tiles: int, *, otherwise: bool = False) -> PrimFunc:
    """Tile n is the sum of the first `steps[n]` products; without any it is left alone, or zero if `otherwise`."""

    @T.prim_func
    def main(
        A: T.Tensor((SIZE, MOST_STEPS * SIZE), "float16"),
        B: T.Tensor((MOST_STEPS * SIZE, SIZE), "float16"),
        steps: T.Tensor((tiles,), "int32"),
        C: T.Tensor((tiles * SIZE, SIZE), "float16"),
    ):
        with T.Kernel(tiles, threads=128) as tile:
            A_s, B_s = T.alloc_shared((SIZE, SIZE), "float16"), T.alloc_shared((SIZE, SIZE), "float16")
            C_l = T.alloc_fragment((SIZE, SIZE), "float32")
            count = steps[tile]
            T.clear(C_l)
            if count > 0:
                for k in T.Pipelined(T.clamp(count, 1, MOST_STEPS), num_stages=3):
                    T.copy(A[0, k * SIZE], A_s)
                    T.copy(B[k * SIZE, 0], B_s)
                    T.gemm(A_s, B_s, C_l)
                T.copy(C_l, C[tile * SIZE, 0])
            elif otherwise:
                T.copy(C_l, C[tile * SIZE, 0])

    return main


def operands_and_tiles(steps: Sequence[int], empty: float) -> tuple[list[np.ndarray], np.ndarray]:
    """A, B, the steps, and C, whose tiles without a step hold `empty`."""
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-3, 4, shape).astype(np.float16)
        for shape in ((SIZE, MOST_STEPS * SIZE), (MOST_STEPS * SIZE, SIZE))
    )
    sums = [a[:, : SIZE * n].astype(np.float32) @ b[: SIZE * n].astype(np.float32) for n in steps]
    tiles = [tile if n else np.full_like(tile, empty) for n, tile in zip(steps, sums, strict=True)]
    return [a, b, np.array(steps, np.int32)], np.concatenate(tiles).astype(np.float16)
