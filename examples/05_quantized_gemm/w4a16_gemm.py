"""float16 activations times weights of four bits: C = A @ W^T, where two weights share a byte.

W is quantized in groups of `group` columns: a weight is `(nibble - 8) * scale`. A pipelined loop copies packed bytes,
converts them to float16 in shared memory and multiplies; the memory traffic of W is a quarter of that of float16.
The scales of a group stand beside each other, so that a tile needs a contiguous run of them.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[3])
def w4a16_gemm(M, N, K, group=64, block_M=64, block_N=128, block_K=64, num_stages=3, threads=256, dtype="float16"):
    assert K % group == 0, "groups divide the columns"
    assert group % block_K == 0 or block_K % group == 0, "a tile of weights has whole groups, or is part of one"
    tile_groups = T.ceildiv(block_K, group)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K // 2), "uint8"),
        scales: T.Tensor((K // group, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            W_packed = T.alloc_shared((block_N, block_K // 2), "uint8")
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            scale = T.alloc_shared((tile_groups, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K // 2], W_packed)
                T.copy(scales[k * block_K // group, bx * block_N], scale)
                for i, j in T.Parallel(block_N, block_K):
                    nibble = (W_packed[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & 15
                    W_shared[i, j] = (T.cast(nibble, dtype) - 8) * scale[j // group, i]
                T.gemm(A_shared, W_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def quantize(weights, group):
    """Packed nibbles of a matrix of weights, quantized in groups of columns, and scales by group and row."""
    groups = weights.reshape(weights.shape[0], -1, group)
    scales = (np.abs(groups).max(axis=-1) / 7).astype(np.float16)
    nibbles = np.clip(np.rint(groups / scales[..., None].astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    nibbles = nibbles.reshape(weights.shape)
    return nibbles[:, 0::2] | nibbles[:, 1::2] << 4, np.ascontiguousarray(scales.T)


def dequantize(packed, scales, group):
    """The weights that packed nibbles and scales stand for."""
    nibbles = np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1).astype(np.float32)
    return (nibbles - 8) * np.repeat(scales.T.astype(np.float32), group, axis=1)


def main(M=100, N=264, K=512, group=64, **tiles):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    packed, scales = quantize(rng.standard_normal((N, K), dtype=np.float32), group)
    c = to_host(w4a16_gemm(M, N, K, group, **tiles)(*to_device(a, packed, scales)))
    expected = a.astype(np.float32) @ dequantize(packed, scales, group).T
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=0.1)
    print(f"w4a16_gemm: {M} x {N} x {K}, groups of {group}, agrees with NumPy")


if __name__ == "__main__":
    main()
