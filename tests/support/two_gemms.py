"""A loop of two gemms with a function of the scores between them, as attention has it."""

import tilelang.language as T


def two_gemms(what=""):
    """S = A B; P = f(S); C += P B, with something that decides how it can be scheduled."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((512, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_s)
            T.clear(C_l)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    if what == "stores the operand":
                        P[i, j] = T.exp2(T.min(S[i, j], 0.0))
                    else:
                        S[i, j] = T.exp2(T.min(S[i, j], 0.0))
                    if what == "stores both":
                        P[i, j] = S[i, j]
                    if what == "reads the result":
                        S[i, j] = S[i, j] + C_l[i, j]
                    if what == "adds to the result":
                        C_l[i, j] = C_l[i, j] + 1.0
                if what == "reads shared memory":
                    for i, j in T.Parallel(64, 64):
                        S[i, j] = S[i, j] + B_s[i, j]
                if what == "converts":
                    T.gemm(S, B_s, C_l)
                else:
                    if what not in ("stores both", "stores the operand"):
                        T.copy(S, P)
                    T.gemm(P, B_s, C_l)
            T.copy(C_l, C)

    return main
