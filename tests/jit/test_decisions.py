import tilelang
import tilelang.language as T


def kernel(dtype="float16", stages=3):
    @T.prim_func
    def gemm(A: T.Tensor((256, 128), dtype), B: T.Tensor((128, 256), dtype), C: T.Tensor((256, 256), "float32")):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            A_s = T.alloc_shared((128, 32), dtype)
            B_s = T.alloc_shared((32, 128), dtype)
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[by * 128, k * 32], A_s)
                T.copy(B[k * 32, bx * 128], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * 128, bx * 128])

    target = {"kind": "cuda", "arch": "sm_80"}
    return tilelang.compile(gemm, target=target, execution_backend="simulator")


def test_every_choice_is_told_with_its_line():
    text = kernel().explain()
    assert "T.copy is done by copy.cp_async" in text
    assert "T.gemm is done by gemm.mma" in text
    assert "49152 bytes of shared memory: 'A_s' at 0, 'B_s' at 24576" in text
    assert "fixed by T.gemm" in text


def test_what_keeps_a_loop_from_running_ahead_is_told():
    assert "the loop stays serial" not in kernel().explain()
    assert "T.gemm is done by gemm.fma" in kernel("float32").explain()
