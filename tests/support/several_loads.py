"""A gemm whose tile is loaded in several places."""

import tilelang.language as T
from tilelang.ir.func import PrimFunc


def several_loads() -> PrimFunc:
    """A load in front of a loop, that loop and another one fill a tile in turn: blocks of 64 rows times themselves."""

    @T.prim_func
    def main(A: T.Tensor((128, 320), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(2, threads=128) as by:
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.copy(A[by * 64, 0], A_s)
            T.gemm(A_s, A_s, C_l, transpose_B=True, clear_accum=True)
            for first, count in ((1, 2), (3, 2)):
                for k in T.Pipelined(first, first + count, num_stages=2):
                    T.copy(A[by * 64, k * 64], A_s)
                    T.gemm(A_s, A_s, C_l, transpose_B=True)
            T.copy(C_l, C[by * 64, 0])

    return main
