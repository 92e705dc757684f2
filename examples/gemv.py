"""y = A @ x: a block owns a few rows; the sum along K is an update inside a parallel loop."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def gemv(N, K, block_N=16, block_K=256, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((N, K), dtype), x: T.Tensor((K,), dtype), y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bn:
            A_shared = T.alloc_shared((block_N, block_K), dtype)
            x_shared = T.alloc_shared((block_K,), dtype)
            total = T.alloc_fragment((block_N,), accum_dtype)

            T.clear(total)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[bn * block_N, ko * block_K], A_shared)
                T.copy(x[ko * block_K], x_shared)
                for i, k in T.Parallel(block_N, block_K):
                    total[i] += T.cast(A_shared[i, k], accum_dtype) * T.cast(x_shared[k], accum_dtype)
            T.copy(total, y[bn * block_N])

    return main


def main(N=1000, K=1500):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((N, K), dtype=np.float32).astype(np.float16)
    x = rng.standard_normal(K, dtype=np.float32).astype(np.float16)

    y = to_host(gemv(N, K)(*to_device(a, x)))

    expected = a.astype(np.float32) @ x.astype(np.float32)
    np.testing.assert_allclose(y.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    print(f"gemv: ({N}, {K}) agrees with NumPy")


if __name__ == "__main__":
    main()
