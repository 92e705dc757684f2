"""Attention whose queries stay in registers across its loop."""

import tilelang.language as T


def attention(weights="from scores", queries="before the loop", through=False):
    """Scores of queries in registers, and what they weigh, from registers or through shared memory."""

    @T.prim_func
    def main(
        Q: T.Tensor((64, 64), "float16"), K: T.Tensor((192, 64), "float16"), V: T.Tensor((192, 64), "float16"),
        O: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            Q_s, K_s, V_s = (T.alloc_shared((64, 64), "float16") for _ in range(3))
            Q_l, P = (T.alloc_fragment((64, 64), "float16") for _ in range(2))
            P_s = T.alloc_shared((64, 64), "float16")
            S, acc = (T.alloc_fragment((64, 64), "float32") for _ in range(2))
            T.copy(Q, Q_s)
            if queries == "before the loop":
                T.copy(Q_s, Q_l)
            T.clear(acc)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(K[k * 64, 0], K_s)
                T.copy(V[k * 64, 0], V_s)
                if queries == "from shared memory":
                    T.copy(Q_s, Q_l)
                if queries == "scaled":
                    for i, j in T.Parallel(64, 64):
                        Q_l[i, j] *= T.float16(-1)
                if queries == "half":
                    for i, j in T.Parallel(64, 32):
                        Q_l[i, j] = T.cast(acc[i, j], "float16")
                T.gemm(Q_l, K_s, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    P[i, j] = T.cast(S[i, j], "float16") if weights == "from scores" else T.float16(1)
                if through:
                    T.copy(P, P_s)
                    T.gemm(P_s, V_s, acc)
                else:
                    T.gemm(P, V_s, acc)
            T.copy(acc, O)

    return main
