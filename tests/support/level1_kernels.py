"""Level 2 kernels that computations call."""

import tilelang
import tilelang.language as T
from tilelang.jit.kernel import JITKernel


def scaled_and_shifted(**options: object) -> JITKernel:
    """A kernel of a float32 vector and a number: the vector times the number, and plus the number."""
    n = T.dynamic("n")

    @T.prim_func
    def both(x: T.Tensor((n,), "float32"), c: T.float32, y: T.Tensor((n,), "float32"), z: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64), threads=32) as b:
            for i in T.Parallel(64):
                y[b * 64 + i] = x[b * 64 + i] * c
                z[b * 64 + i] = x[b * 64 + i] + c

    return tilelang.compile(both, out_idx=[-2, -1], **options)
