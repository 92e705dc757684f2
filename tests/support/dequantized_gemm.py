"""Gemms of which threads compute one operand from nibbles."""

import tilelang.language as T


def dequantized(rows=16, columns=64, depth=64, steps=3, *, side="B", along_k=True, dtype="float16", other="", tiles=1):
    """C = A W, with one operand made of nibbles; `other` names what may keep it in shared memory."""
    size = columns if side == "B" else rows
    shape, packed = ((size, depth), (size, depth // 2)) if along_k else ((depth, size), (depth, size // 2))

    @T.prim_func
    def main(
        A: T.Tensor(((rows if side == "B" else columns) * tiles, depth * steps), dtype),
        W: T.Tensor((steps, *packed), "uint8"), C: T.Tensor((rows * tiles, columns), "float32"),
    ):
        with T.Kernel(tiles, threads=128) as bx:
            A_s = T.alloc_shared((rows if side == "B" else columns, depth), dtype)
            W_b = T.alloc_shared(packed, "uint8")
            W_s = T.alloc_shared(shape, dtype)
            C_l = T.alloc_fragment((rows, columns), "float32")
            T.clear(C_l)
            for k in T.Pipelined(steps, num_stages=0 if other == "loop is not pipelined" else 2):
                T.copy(A[bx * A_s.shape[0], k * depth], A_s)
                T.copy(W[k, 0, 0], W_b)
                for i, j in T.Parallel(*shape):
                    W_s[i, j] = T.cast((W_b[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & 15, dtype) - 8
                if other == "read by threads":
                    for i, j in T.Parallel(rows, columns):
                        C_l[i, j] += W_s[j, i]
                if side == "B":
                    T.gemm(A_s, W_s, C_l, transpose_B=along_k)
                else:
                    T.gemm(W_s, A_s, C_l, transpose_A=not along_k, transpose_B=True)
                if other == "two gemms":
                    T.gemm(A_s, W_s, C_l, transpose_B=along_k)
            T.copy(C_l, C[bx * rows, 0])

    return main
