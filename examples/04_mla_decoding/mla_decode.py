"""Decoding with Multi-Head Latent Attention: one query per head against a compressed key/value cache.

The cache holds one latent vector per position; `KV_proj` expands it to a head's keys, which are its values too.
Blocks of a grid are independent, so the splits of the cache cannot all write the output: either one block
walks over all of them (`mla_decode`), or every split leaves its part and a second kernel of the same function
combines them (`mla_decode_split`).
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


def expand_tile(block_N, head_dim, latent_dim, block_L, dtype):
    """The macro that expands `block_N` cached positions to one head's keys."""

    @T.macro
    def expand(KV_compressed, KV_proj, b, h, first, KV_shared):
        comp_shared = T.alloc_shared((block_N, block_L), dtype)
        proj_shared = T.alloc_shared((block_L, head_dim), dtype)
        expanded = T.alloc_fragment((block_N, head_dim), "float32")
        T.clear(expanded)
        for lo in T.Pipelined(T.ceildiv(latent_dim, block_L), num_stages=2):
            T.copy(KV_compressed[b, first, lo * block_L], comp_shared)
            T.copy(KV_proj[lo * block_L : (lo + 1) * block_L, h, 0:head_dim], proj_shared)
            T.gemm(comp_shared, proj_shared, expanded)
        T.copy(expanded, KV_shared)

    return expand


@tilelang.jit(out_idx=[3])
def mla_decode(batch, n_heads, kv_len, head_dim, latent_dim, block_N=64, block_L=64, dtype="float16"):
    """One block per head walks over the cache, with an online softmax."""
    expand = expand_tile(block_N, head_dim, latent_dim, block_L, dtype)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, n_heads, 1, head_dim), dtype),
        KV_compressed: T.Tensor((batch, kv_len, latent_dim), dtype),
        KV_proj: T.Tensor((latent_dim, n_heads, head_dim), dtype),
        O: T.Tensor((batch, n_heads, 1, head_dim), dtype),
    ):
        scale = T.float32(1.0) / T.sqrt(T.float32(head_dim))

        with T.Kernel(n_heads, batch, threads=128) as (by, bz):
            Q_shared = T.alloc_shared((1, head_dim), dtype)
            KV_shared = T.alloc_shared((block_N, head_dim), dtype)
            S_local = T.alloc_fragment((1, block_N), "float32")
            O_local = T.alloc_fragment((1, head_dim), "float32")
            scores_max = T.alloc_fragment((1,), "float32")
            scores_max_prev = T.alloc_fragment((1,), "float32")
            scores_sum = T.alloc_fragment((1,), "float32")

            T.copy(Q[bz, by, 0, 0], Q_shared)
            T.fill(scores_max, -1e9)
            T.clear(scores_sum)
            T.clear(O_local)

            for bx in T.serial(T.ceildiv(kv_len, block_N)):
                expand(KV_compressed, KV_proj, bz, by, bx * block_N, KV_shared)

                T.clear(S_local)
                T.gemm(Q_shared, KV_shared, S_local, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for j in T.Parallel(block_N):
                    S_local[0, j] = T.if_then_else(
                        bx * block_N + j < kv_len, S_local[0, j] * scale, -T.infinity("float32")
                    )

                T.copy(scores_max, scores_max_prev)
                for j in T.Parallel(block_N):
                    scores_max[0] = T.max(scores_max[0], S_local[0, j])

                correction = T.exp(scores_max_prev[0] - scores_max[0])
                scores_sum[0] = scores_sum[0] * correction
                for d in T.Parallel(head_dim):
                    O_local[0, d] = O_local[0, d] * correction

                for j in T.Parallel(block_N):
                    S_local[0, j] = T.exp(S_local[0, j] - scores_max[0])
                    scores_sum[0] = scores_sum[0] + S_local[0, j]

                T.gemm(S_local, KV_shared, O_local)

            for d in T.Parallel(head_dim):
                O_local[0, d] = O_local[0, d] / scores_sum[0]
            T.copy(O_local, O[bz, by, 0, 0])

    return main


@tilelang.jit(out_idx=[3])
def mla_decode_split(batch, n_heads, kv_len, head_dim, latent_dim, block_N=64, block_L=64, dtype="float16"):
    """One block per split of the cache; a second kernel joins what the splits found."""
    num_splits = -(-kv_len // block_N)
    expand = expand_tile(block_N, head_dim, latent_dim, block_L, dtype)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, n_heads, 1, head_dim), dtype),
        KV_compressed: T.Tensor((batch, kv_len, latent_dim), dtype),
        KV_proj: T.Tensor((latent_dim, n_heads, head_dim), dtype),
        O: T.Tensor((batch, n_heads, 1, head_dim), dtype),
    ):
        scale = T.float32(1.0) / T.sqrt(T.float32(head_dim))
        # what each split leaves for the second kernel: its largest score, its sum, its unscaled output
        part_max = T.alloc_global((batch, n_heads, num_splits), "float32")
        part_sum = T.alloc_global((batch, n_heads, num_splits), "float32")
        part_out = T.alloc_global((batch, n_heads, num_splits, head_dim), "float32")

        with T.Kernel(num_splits, n_heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((1, head_dim), dtype)
            KV_shared = T.alloc_shared((block_N, head_dim), dtype)
            S_local = T.alloc_fragment((1, block_N), "float32")
            O_local = T.alloc_fragment((1, head_dim), "float32")
            scores_max = T.alloc_fragment((1,), "float32")
            scores_sum = T.alloc_fragment((1,), "float32")

            T.copy(Q[bz, by, 0, 0], Q_shared)
            expand(KV_compressed, KV_proj, bz, by, bx * block_N, KV_shared)

            T.clear(S_local)
            T.gemm(Q_shared, KV_shared, S_local, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
            for j in T.Parallel(block_N):
                S_local[0, j] = T.if_then_else(
                    bx * block_N + j < kv_len, S_local[0, j] * scale, -T.infinity("float32")
                )
            T.reduce_max(S_local, scores_max, dim=1)
            T.clear(scores_sum)
            for j in T.Parallel(block_N):
                S_local[0, j] = T.exp(S_local[0, j] - scores_max[0])
                scores_sum[0] = scores_sum[0] + S_local[0, j]

            T.clear(O_local)
            T.gemm(S_local, KV_shared, O_local)

            part_max[bz, by, bx] = scores_max[0]
            part_sum[bz, by, bx] = scores_sum[0]
            T.copy(O_local, part_out[bz, by, bx, 0])

        with T.Kernel(n_heads, batch, threads=128) as (by, bz):
            O_local = T.alloc_fragment((head_dim,), "float32")
            largest = T.alloc_var("float32", init=-1e9)
            total = T.alloc_var("float32", init=0.0)

            for s in T.serial(num_splits):
                largest = T.max(largest, part_max[bz, by, s])
            T.clear(O_local)
            for s in T.serial(num_splits):
                weight = T.exp(part_max[bz, by, s] - largest)
                total += part_sum[bz, by, s] * weight
                for d in T.Parallel(head_dim):
                    O_local[d] += part_out[bz, by, s, d] * weight
            for d in T.Parallel(head_dim):
                O[bz, by, 0, d] = O_local[d] / total

    return main


def reference(q, kv, proj):
    q, kv, proj = (x.astype(np.float32) for x in (q, kv, proj))
    keys = np.einsum("bnl,lhd->bhnd", kv, proj).astype(np.float16).astype(np.float32)
    scores = q @ keys.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ keys


def main(batch=2, n_heads=4, kv_len=300, head_dim=64, latent_dim=128):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((batch, n_heads, 1, head_dim), dtype=np.float32).astype(np.float16)
    kv = rng.standard_normal((batch, kv_len, latent_dim), dtype=np.float32).astype(np.float16)
    proj = rng.standard_normal((latent_dim, n_heads, head_dim), dtype=np.float32) / np.sqrt(latent_dim)
    proj = proj.astype(np.float16)

    sizes = (batch, n_heads, kv_len, head_dim, latent_dim)
    expected = reference(q, kv, proj)
    for name, factory in (("one kernel", mla_decode), ("split-KV", mla_decode_split)):
        out = to_host(factory(*sizes)(*to_device(q, kv, proj)))
        np.testing.assert_allclose(out.astype(np.float32), expected, rtol=2e-2, atol=1e-2)
        print(f"mla_decode: {name}, {kv_len} cached positions, {n_heads} heads, agrees with NumPy")


if __name__ == "__main__":
    main()
