"""Decoding with a latent cache in the style of published TileLang, in splits, with its check against PyTorch."""

import math

import torch
from compatible_programs import LOG2E, close

import tilelang.language as T


def mla_split(batch, heads, keys, dim, tail, splits, block_H=64, block_N=64, stages=2, threads=256):
    """Each block attends to one split of the cache; results and the logarithms of their sums are left to be combined."""
    scale = LOG2E / math.sqrt(dim + tail)
    share = keys // splits

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), "float16"),
        Q_pe: T.Tensor((batch, heads, tail), "float16"),
        KV: T.Tensor((batch, keys, 1, dim), "float16"),
        K_pe: T.Tensor((batch, keys, 1, tail), "float16"),
        glse: T.Tensor((batch, heads, splits), "float16"),
        Output_partial: T.Tensor((batch, heads, splits, dim), "float16"),
    ):
        with T.Kernel(batch, heads // block_H, splits, threads=threads) as (bid, hid, bz):
            Q_shared = T.alloc_shared((block_H, dim), "float16")
            S_shared = T.alloc_shared((block_H, block_N), "float16")
            Q_pe_shared = T.alloc_shared((block_H, tail), "float16")
            KV_shared = T.alloc_shared((block_N, dim), "float16")
            K_pe_shared = T.alloc_shared((block_N, tail), "float16")
            O_shared = T.alloc_shared((block_H, dim), "float16")
            acc_s = T.alloc_fragment((block_H, block_N), "float32")
            acc_s_cast = T.alloc_fragment((block_H, block_N), "float16")
            acc_o = T.alloc_fragment((block_H, dim), "float32")
            scores_max = T.alloc_fragment((block_H,), "float32")
            scores_max_prev = T.alloc_fragment((block_H,), "float32")
            scores_scale = T.alloc_fragment((block_H,), "float32")
            scores_sum = T.alloc_fragment((block_H,), "float32")
            logsum = T.alloc_fragment((block_H,), "float32")
            first, last = hid * block_H, (hid + 1) * block_H
            T.use_swizzle(10)
            T.copy(Q[bid, first:last, :], Q_shared)
            T.copy(Q_pe[bid, first:last, :], Q_pe_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(share, block_N), num_stages=stages):
                start = share * bz + k * block_N
                T.copy(KV[bid, start : start + block_N, 0, :], KV_shared)
                T.copy(K_pe[bid, start : start + block_N, 0, :], K_pe_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(Q_pe_shared, K_pe_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity("float32"))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                for i in T.Parallel(block_H):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                T.copy(acc_s, S_shared)
                T.copy(S_shared, acc_s_cast)
                for i in T.Parallel(block_H):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                for i, j in T.Parallel(block_H, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.gemm(acc_s_cast, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                acc_o[i, j] /= logsum[i]
            for i in T.Parallel(block_H):
                logsum[i] = T.log2(logsum[i]) + scores_max[i] * scale
            T.copy(logsum, glse[bid, first:last, bz])
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output_partial[bid, first:last, bz, :])

    return main


def check_mla_split(on, batch, heads, keys, dim, tail, splits, **tiles):
    q, q_pe = (on.normal(batch, heads, size, dtype="float16") for size in (dim, tail))
    kv, k_pe = (on.normal(batch, keys, 1, size, dtype="float16", seed=1) for size in (dim, tail))
    func = mla_split(batch, heads, keys, dim, tail, splits, **tiles)
    logarithms, parts = on.compile(func, out_idx=[4, 5])(q, q_pe, kv, k_pe)
    kv, k_pe = (each.float().reshape(batch, splits, keys // splits, -1) for each in (kv, k_pe))
    scores = torch.einsum("bhd,bskd->bhsk", q.float(), kv) + torch.einsum("bhd,bskd->bhsk", q_pe.float(), k_pe)
    scores /= math.sqrt(dim + tail)
    close(parts, torch.einsum("bhsk,bskd->bhsd", scores.softmax(-1), kv), 1e-2)
    close(logarithms, torch.logsumexp(scores, -1) * LOG2E, 1e-2)
