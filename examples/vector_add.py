"""C = A + B: the smallest kernel. The block size need not divide N; accesses outside are guarded."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit
def add(N: int, block: int = 256, dtype: str = "float32"):
    @T.prim_func
    def add_kernel(
        A: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        C: T.Tensor((N,), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
            for i in T.Parallel(block):
                gi = bx * block + i
                C[gi] = A[gi] + B[gi]

    return add_kernel


def main(N=1_000_003):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, N), dtype=np.float32)
    a_there, b_there, c_there = to_device(a, b, np.empty_like(a))  # on a GPU, in its own memory

    add(N)(a_there, b_there, c_there)

    np.testing.assert_array_equal(to_host(c_there), a + b)
    print(f"vector_add: {N} elements agree with NumPy")


if __name__ == "__main__":
    main()
