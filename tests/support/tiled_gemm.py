"""A gemm by tiles, of any dtypes, transposed or not, as programs write it."""

import tilelang.language as T


def tiled_gemm(
    sizes, tile, *, dtype="float16", dtype_b=None, accum=None, out="float16", trans_a=False, trans_b=False,
    num_stages=2, threads=128, policy=T.GemmWarpPolicy.Square, pitch=None,
):
    """C = A @ B of (M, N, K) by tiles of (rows, columns, depth).

    There are `pitch` elements from row to row of all three tensors, or as many as they have columns.
    """
    (m, n, k), (bm, bn, bk) = sizes, tile
    dtype_b, accum = dtype_b or dtype, accum or ("int32" if dtype in ("int8", "uint8") else "float32")

    def tensor(rows, columns, kind):
        return T.Tensor((rows, columns), kind) if pitch is None else T.StridedTensor((rows, columns), (pitch, 1), kind)

    @T.prim_func
    def main(
        A: tensor(k, m, dtype) if trans_a else tensor(m, k, dtype),
        B: tensor(n, k, dtype_b) if trans_b else tensor(k, n, dtype_b),
        C: tensor(m, n, out),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_s = T.alloc_shared((bk, bm) if trans_a else (bm, bk), dtype)
            B_s = T.alloc_shared((bn, bk) if trans_b else (bk, bn), dtype_b)
            C_l = T.alloc_fragment((bm, bn), accum)
            T.clear(C_l)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=num_stages):
                if trans_a:
                    T.copy(A[ko * bk, by * bm], A_s)
                else:
                    T.copy(A[by * bm, ko * bk], A_s)
                if trans_b:
                    T.copy(B[bx * bn, ko * bk], B_s)
                else:
                    T.copy(B[ko * bk, bx * bn], B_s)
                T.gemm(A_s, B_s, C_l, transpose_A=trans_a, transpose_B=trans_b, policy=policy)
            T.copy(C_l, C[by * bm, bx * bn])

    return main
