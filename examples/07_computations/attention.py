"""Attention in four lines of mathematics, with what models put around it: the compiler finds FlashAttention by itself.

`attention.program(...)` is the text of the Level 2 program that is run; this script prints it once.
"""

import math

import numpy as np

import tilelang
import tilelang.numpy as tnp
from tilelang.testing import to_device, to_host


@tilelang.compute
def attention(q, k, v, causal=False, window=None, soft_cap=None, slopes=None, documents=None):
    """Full, causal, in a window, with a soft cap, ALiBi, within documents; several heads of q may share one of k and v.

    Tiles of keys of other documents are skipped: a small kernel finds them by the least and greatest number in a tile.
    """
    batch, heads, length, dim = q.shape
    groups = k.shape[1]
    q = tnp.reshape(q, (batch, groups, heads // groups, length, dim))
    scores = tnp.einsum("bghqd,bgkd->bghqk", q, k) / math.sqrt(dim)
    if soft_cap is not None:
        scores = soft_cap * tnp.tanh(scores / soft_cap)
    queries, keys = tnp.arange(length)[:, None], tnp.arange(k.shape[2])[None, :]
    if slopes is not None:
        slopes = tnp.reshape(slopes, (groups, heads // groups, 1, 1))
        scores = scores + slopes * (keys - queries)
    if causal:
        scores = tnp.where(queries >= keys, scores, -tnp.inf)
    if window is not None:
        scores = tnp.where(queries - keys < window, scores, -tnp.inf)
    if documents is not None:
        scores = tnp.where(documents[:, None] == documents[None, :], scores, -tnp.inf)
    out = tnp.einsum("bghqk,bgkd->bghqd", tnp.softmax(scores, axis=-1), v)
    return tnp.reshape(out, (batch, heads, length, dim)).astype(v.dtype)


def reference(q, k, v, causal=False, window=None, soft_cap=None, slopes=None, documents=None):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if soft_cap is not None:
        scores = soft_cap * np.tanh(scores / soft_cap)
    distance = np.subtract.outer(np.arange(q.shape[2]), np.arange(k.shape[2]))
    if slopes is not None:
        scores = scores - slopes[:, None, None] * distance
    if causal:
        scores = np.where(distance >= 0, scores, -np.inf)
    if window is not None:
        scores = np.where(distance < window, scores, -np.inf)
    if documents is not None:
        scores = np.where(documents[:, None] == documents, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def main(batch=1, heads=4, groups=2, length=200, dim=64):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((batch, heads, length, dim), dtype=np.float32).astype(np.float16)
    k, v = rng.standard_normal((2, batch, groups, length, dim), dtype=np.float32).astype(np.float16)
    slopes = (2.0 ** -np.arange(1, heads + 1)).astype(np.float32)
    documents = np.arange(length, dtype=np.int32) * 3 // length
    on_device = {"slopes": to_device(slopes), "documents": to_device(documents)}

    def check(name, **options):
        given = {option: on_device.get(option, value) for option, value in options.items()}
        out = to_host(attention(*to_device(q, k, v), **given))
        np.testing.assert_allclose(out.astype(np.float32), reference(q, k, v, **options), rtol=1e-2, atol=1e-2)
        print(f"attention, {name}: {q.shape}, agrees with NumPy")

    check("full")
    check("causal", causal=True)
    check("window", causal=True, window=50)
    check("soft cap", soft_cap=5.0)
    check("ALiBi", causal=True, slopes=slopes)
    check("documents", documents=documents)
    print(attention.program(*to_device(q, k, v), causal=True))


if __name__ == "__main__":
    main()
