"""Attention over sequences of different lengths that lie one after the other, as serving systems pack a batch.

`starts` says where a sequence begins; the last entry is where all end. The grid covers the longest sequence, and blocks
beyond the end of theirs have nothing to do. A query sees the keys of its sequence up to its own position.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[4])
def varlen_attention(batch, heads, longest, dim, block_M=64, block_N=64, num_stages=2, threads=128, dtype="float16"):
    scale = dim**-0.5 * LOG2_E  # of exponents of 2
    tokens = T.dynamic("tokens")

    @T.prim_func
    def main(
        Q: T.Tensor((tokens, heads, dim), dtype),
        K: T.Tensor((tokens, heads, dim), dtype),
        V: T.Tensor((tokens, heads, dim), dtype),
        starts: T.Tensor((batch + 1,), "int32"),
        O: T.Tensor((tokens, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(longest, block_M), heads, batch, threads=threads) as (bx, h, b):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), dtype)
            out = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            previous = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            tile_sum = T.alloc_fragment((block_M,), "float32")

            start = starts[b]
            length = starts[b + 1] - start
            if bx * block_M < length:
                T.copy(Q[start + bx * block_M : start + (bx + 1) * block_M, h, :], Q_shared)
                T.clear(out)
                T.clear(row_sum)
                T.fill(row_max, -1e30)
                for k in T.Pipelined(T.ceildiv(T.min(length, (bx + 1) * block_M), block_N), num_stages=num_stages):
                    T.copy(K[start + k * block_N : start + (k + 1) * block_N, h, :], K_shared)
                    T.gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                    for i, j in T.Parallel(block_M, block_N):
                        seen = k * block_N + j <= bx * block_M + i
                        S[i, j] = T.if_then_else(seen, S[i, j] * scale, -T.infinity("float32"))
                    T.copy(row_max, previous)
                    T.reduce_max(S, row_max, dim=1, clear=False)
                    for i in T.Parallel(block_M):
                        rescale[i] = T.exp2(previous[i] - row_max[i])
                    for i, j in T.Parallel(block_M, block_N):
                        S[i, j] = T.exp2(S[i, j] - row_max[i])
                    T.reduce_sum(S, tile_sum, dim=1)
                    for i in T.Parallel(block_M):
                        row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                    T.copy(S, P)
                    for i, j in T.Parallel(block_M, dim):
                        out[i, j] *= rescale[i]
                    T.copy(V[start + k * block_N : start + (k + 1) * block_N, h, :], V_shared)
                    T.gemm(P, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, dim):
                    if bx * block_M + i < length:  # the next rows are another sequence's
                        O[start + bx * block_M + i, h, j] = out[i, j] / row_sum[i]

    return main


def reference(q, k, v, starts):
    q, k, v = (x.astype(np.float32).swapaxes(0, 1) for x in (q, k, v))
    out = np.empty_like(q)
    for start, stop in zip(starts, starts[1:], strict=False):
        part = slice(start, stop)
        scores = q[:, part] @ k[:, part].swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        scores = np.where(np.tri(stop - start, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        out[:, part] = weights / weights.sum(axis=-1, keepdims=True) @ v[:, part]
    return out.swapaxes(0, 1)


def main(lengths=(300, 1, 0, 130), heads=4, dim=64, **tiles):
    rng = np.random.default_rng(0)
    starts = np.cumsum((0, *lengths)).astype(np.int32)
    q, k, v = rng.standard_normal((3, starts[-1], heads, dim), dtype=np.float32).astype(np.float16)
    kernel = varlen_attention(len(lengths), heads, max(lengths), dim, **tiles)
    out = to_host(kernel(*to_device(q, k, v, starts)))
    np.testing.assert_allclose(out.astype(np.float32), reference(q, k, v, starts), rtol=1e-2, atol=1e-2)
    print(f"varlen_attention: sequences of {', '.join(map(str, lengths))} positions agree with NumPy")


if __name__ == "__main__":
    main()
