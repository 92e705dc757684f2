"""Programs whose final code is checked for AMD: each moves tiles through LDS in another way."""

import tilelang.language as T
from tilelang.ir.func import PrimFunc


def gemm(k: int, *, stages: int = 2, block: int = 128, depth: int = 32, dtype: str = "float16", accum: str = "float32",
         rows: int = 0) -> PrimFunc:  # fmt: skip
    """A tiled product of (rows or block) x k and k x block."""
    m = rows or block

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, block), dtype), C: T.Tensor((m, block), accum)):
        with T.Kernel(1, T.ceildiv(m, block), threads=256) as (bx, by):
            A_s, B_s = T.alloc_shared((block, depth), dtype), T.alloc_shared((depth, block), dtype)
            C_f = T.alloc_fragment((block, block), accum)
            T.clear(C_f)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * block, step * depth], A_s)
                T.copy(B[step * depth, 0], B_s)
                T.gemm(A_s, B_s, C_f)
            T.copy(C_f, C[by * block, 0])

    return main


def attention(keys: int, *, stages: int = 2, dim: int = 64, held: bool = False) -> PrimFunc:
    """Attention of 64 queries, with the softmax as it goes.

    Args:
        keys: How many there are.
        stages: Stages of the loop over tiles of them.
        dim: The length of rows.
        held: Whether queries are in registers, all of a row in a wave.
    """
    policy = T.GemmWarpPolicy.FullRow if held else T.GemmWarpPolicy.Square

    @T.prim_func
    def main(Q: T.Tensor((64, dim), "float16"), K: T.Tensor((keys, dim), "float16"),
             V: T.Tensor((keys, dim), "float16"), O: T.Tensor((64, dim), "float16")):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            Q_s = T.alloc_fragment((64, dim), "float16") if held else T.alloc_shared((64, dim), "float16")
            K_s, V_s = T.alloc_shared((64, dim), "float16"), T.alloc_shared((64, dim), "float16")
            S, P = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float16")
            out = T.alloc_fragment((64, dim), "float32")
            largest, before = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            total, part = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.copy(Q, Q_s)
            T.clear(out)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv(keys, 64), num_stages=stages):
                T.copy(K[step * 64, 0], K_s)
                T.copy(V[step * 64, 0], V_s)
                T.clear(S)
                T.gemm(Q_s, K_s, S, transpose_B=True, policy=policy)
                T.copy(largest, before)
                T.reduce_max(S, largest, dim=1, clear=False)
                for i, j in T.Parallel(64, 64):
                    S[i, j] = T.exp(S[i, j] - largest[i])
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(64):
                    total[i] = total[i] * T.exp(before[i] - largest[i]) + part[i]
                T.copy(S, P)
                for i, j in T.Parallel(64, dim):
                    out[i, j] *= T.exp(before[i] - largest[i])
                T.gemm(P, V_s, out, policy=policy)
            for i, j in T.Parallel(64, dim):
                out[i, j] /= total[i]
            T.copy(out, O)

    return main


def transpose(n: int) -> PrimFunc:
    """A tile that is written to LDS by rows and read by columns."""

    @T.prim_func
    def main(A: T.Tensor((n, n), "float32"), B: T.Tensor((n, n), "float32")):
        with T.Kernel(1, threads=256) as bx:
            tile = T.alloc_shared((n, n), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(n, n):
                B[i, j] = tile[j, i]

    return main


def row_sums(n: int) -> PrimFunc:
    """Sums over all threads of a block, by way of LDS."""

    @T.prim_func
    def main(A: T.Tensor((4, n), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=256) as bx:
            row, total = T.alloc_fragment((1, n), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(A[bx, 0], row)
            T.reduce_sum(row, total, dim=1)
            T.copy(total, B[bx])

    return main
