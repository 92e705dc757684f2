"""float16 activations times weights of four bits: C = A @ W^T, where eight weights share a word.

W is quantized in groups of `group` columns: a weight is `(nibble - 8) * scale`. A pipelined loop copies packed words,
converts them to float16 and multiplies; the memory traffic of W is a quarter of that of float16.
The scales of a group stand beside each other, so that a tile needs a contiguous run of them.

Weights are packed in the order in which matrix instructions take them: one of 16 columns takes columns 2 t, 2 t + 1,
2 t + 8 and 2 t + 9 of a row from thread t of four. A word holds what a thread gives to two instructions, and the words
of a thread for `span` columns follow each other, so that it loads them at once. Neighboring columns are 16 bits apart:
one instruction takes both out of the word, as the bits of two float16.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


def place(column, span):
    """The word of a row that holds a column, and the column's first bit in one half of it; expressions or arrays."""
    word = column // span * (span // 8) + column % 8 // 2 * (span // 32) + column // 32 % (span // 32)
    return word, column // 8 % 4 * 4, column % 2


@tilelang.jit(out_idx=[3])
def w4a16_gemm(
    M, N, K, group=64, block_M=64, block_N=128, block_K=64, num_stages=3, threads=256, dtype="float16", span=64
):
    assert K % group == 0, "groups divide the columns"
    assert block_K % span == 0, "a tile has whole spans"
    assert group % block_K == 0 or block_K % group == 0, "a tile of weights has whole groups, or is part of one"
    tile_groups = T.ceildiv(block_K, group)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K // 8), "uint32"),
        scales: T.Tensor((K // group, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            W_packed = T.alloc_shared((block_N, block_K // 8), "uint32")
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            scale = T.alloc_shared((tile_groups, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K // 8], W_packed)
                T.copy(scales[k * block_K // group, bx * block_N], scale)
                for i, j in T.Parallel(block_N, block_K):
                    word, bit, half = place(j, span)
                    nibble = W_packed[i, word] >> T.cast(bit, "uint32") >> T.cast(half * 16, "uint32") & 15
                    W_shared[i, j] = (T.cast(T.cast(nibble, "uint8"), dtype) - 8) * scale[j // group, i]
                T.gemm(A_shared, W_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def pack(nibbles, span=64):
    """Words of eight nibbles, by row."""
    word, bit, half = place(np.arange(nibbles.shape[1], dtype=np.uint32), span)
    words = np.zeros((nibbles.shape[0], nibbles.shape[1] // 8), np.uint32)
    np.bitwise_or.at(words.T, word, (nibbles.astype(np.uint32) << bit + half * 16).T)
    return words


def quantize(weights, group, span=64):
    """Packed nibbles of a matrix of weights, quantized in groups of columns, and scales by group and row."""
    groups = weights.reshape(weights.shape[0], -1, group)
    scales = (np.abs(groups).max(axis=-1) / 7).astype(np.float16)
    nibbles = np.clip(np.rint(groups / scales[..., None].astype(np.float32)) + 8, 0, 15)
    return pack(nibbles.reshape(weights.shape), span), np.ascontiguousarray(scales.T)


def dequantize(packed, scales, group, span=64):
    """The weights that packed nibbles and scales stand for."""
    word, bit, half = place(np.arange(packed.shape[1] * 8, dtype=np.uint32), span)
    nibbles = (packed[:, word] >> bit + half * 16 & 15).astype(np.float32)
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
