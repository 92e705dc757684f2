"""Two gemms in a loop whose statements are placed by `order` and `stage`."""

import tilelang.language as T

N = 4  # iterations


def placed_gemms(order=None, stage=None, stages=2, through="registers", rows=64):
    """Two gemms, of which the second one multiplies what is made of the first one's results."""

    @T.prim_func
    def main(
        Q: T.Tensor((64, 64), "float16"), K: T.Tensor((N * rows, 64), "float16"), V: T.Tensor((N * rows, 64), "float16"),
        O: T.Tensor((64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            Q_s = T.alloc_shared((64, 64), "float16")
            K_s = T.alloc_shared((rows, 64), "float16")
            V_s = T.alloc_shared((rows, 64), "float16")
            S = T.alloc_fragment((64, rows), "float32")
            P = T.alloc_fragment((64, rows), "float16")
            P_s = T.alloc_shared((64, rows), "float16")
            out = T.alloc_fragment((64, 64), "float32")
            T.copy(Q, Q_s)
            T.clear(out)
            for k in T.Pipelined(N, num_stages=stages, order=order, stage=stage):
                T.copy(K[k * rows, 0], K_s)
                T.clear(S)
                T.gemm(Q_s, K_s, S, transpose_B=True)
                for i, j in T.Parallel(64, rows):
                    S[i, j] = T.min(S[i, j], 3)
                T.copy(V[k * rows, 0], V_s)
                if through == "registers":
                    T.copy(S, P)
                    T.gemm(P, V_s, out)
                else:
                    T.copy(S, P_s)
                    T.gemm(P_s, V_s, out)
            T.copy(out, O)

    return main


AHEAD = [0, 1, 2, 3, 4, 5, 6], [0, 1, 1, 1, 0, 1, 1]  # loads alone
BEHIND = [0, 1, 2, 4, 5, 6, 3], [0, 1, 1, 1, 0, 1, 2]  # the last gemm beside the first one of the next iteration
SWAPPED = [0, 2, 3, 4, 1, 5, 6], [0, 0, 0, 0, 0, 0, 0]  # loads first, in one stage
