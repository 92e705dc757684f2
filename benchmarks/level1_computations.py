"""The computations of `level1.py`, as a user writes them: mathematics on arrays, without tiles."""

import math

import tilelang
import tilelang.numpy as tnp
from tilelang.level1.execution import compile_lowered
from tilelang.level1.lower import lower
from tilelang.level1.tiles import tilings_of


@tilelang.compute
def matmul(a, b):
    return a @ b


def kernels_of(computation, *arrays):
    """The compiled programs of a computation with one kernel, one for each tiling; that of a call is the first."""
    graph, (target, _) = computation.graph(*arrays), computation.options.chosen()
    (kernel,) = computation.lower(*arrays).kernels
    programs = [lower(graph, target, tilings=[str(tiling)]) for tiling in tilings_of(kernel, target)]
    return [compile_lowered(graph, program, computation.options) for program in programs]


@tilelang.compute
def attention(q, k, v, causal=False, window=None, soft_cap=None, slopes=None, documents=None):
    """Full, causal, in a sliding window, with a soft cap, ALiBi, documents; heads of q may share one of k and v."""
    batch, heads, length, dim = q.shape
    groups = k.shape[1]
    q = tnp.reshape(q, (batch, groups, heads // groups, length, dim))
    scores = tnp.einsum("bghqd,bgkd->bghqk", q, k) / math.sqrt(dim)
    if soft_cap is not None:
        scores = soft_cap * tnp.tanh(scores / soft_cap)
    queries, keys = tnp.arange(length)[:, None], tnp.arange(k.shape[2])[None, :]
    if slopes is not None:
        scores = scores + tnp.reshape(slopes, (groups, heads // groups, 1, 1)) * (keys - queries)
    if causal:
        scores = tnp.where(queries >= keys, scores, -tnp.inf)
    if window is not None:
        scores = tnp.where(queries - keys < window, scores, -tnp.inf)
    if documents is not None:
        scores = tnp.where(documents[:, None] == documents[None, :], scores, -tnp.inf)
    out = tnp.einsum("bghqk,bgkd->bghqd", tnp.softmax(scores, axis=-1), v)
    return tnp.reshape(out, (batch, heads, length, dim)).astype(v.dtype)


@tilelang.compute
def decoding(q, k, v):
    """One query for each head; the heads that share one of k and v are the rows of a tile."""
    batch, heads, _, dim = q.shape
    groups = k.shape[1]
    q = tnp.reshape(q, (batch, groups, heads // groups, dim))
    scores = tnp.einsum("bghd,bgkd->bghk", q, k) / math.sqrt(dim)
    out = tnp.einsum("bghk,bgkd->bghd", tnp.softmax(scores, axis=-1), v)
    return tnp.reshape(out, (batch, heads, 1, dim)).astype(v.dtype)


@tilelang.compute
def softmax(x):
    return tnp.softmax(x, axis=-1)


@tilelang.compute
def log_softmax(x):
    return tnp.log_softmax(x, axis=-1)


@tilelang.compute
def layer_norm(x, weight, bias, eps=1e-5):
    centered = x.astype("float32") - tnp.mean(x, axis=-1, keepdims=True, dtype="float32")
    scale = 1 / tnp.sqrt(tnp.mean(centered * centered, axis=-1, keepdims=True) + eps)
    return (centered * scale * weight + bias).astype(x.dtype)


@tilelang.compute
def rms_norm(x, residual, weight, eps=1e-5):
    total = x.astype("float32") + residual
    scale = 1 / tnp.sqrt(tnp.mean(total * total, axis=-1, keepdims=True) + eps)
    return total.astype(x.dtype), (total * scale * weight).astype(x.dtype)


@tilelang.compute
def cross_entropy(logits, labels):
    chosen = tnp.take_along_axis(logits, labels[:, None], axis=1)
    losses = tnp.logsumexp(logits.astype("float32"), axis=1) - tnp.squeeze(chosen, axis=1)
    return tnp.mean(losses)


@tilelang.compute
def gelu_matmul(x, w, bias):
    return tnp.gelu(x @ w + bias).astype(x.dtype)


@tilelang.compute
def gated_mlp(x, gate, up, down):
    hidden = (tnp.silu(x @ gate) * (x @ up)).astype(x.dtype)
    return hidden @ down


@tilelang.compute
def batch_statistics(x):
    """Mean and variance of each channel: (images, channels, height, width)."""
    wide = x.astype("float32")
    return tnp.mean(wide, axis=(0, 2, 3)), tnp.var(wide, axis=(0, 2, 3))


@tilelang.compute
def quantized_matmul(a, w, w_scale):
    """Rows of a are quantized to int8 by their largest value and multiplied by int8 weights (n, k)."""
    scale = tnp.max(tnp.abs(a.astype("float32")), axis=1, keepdims=True) / 127
    quantized = tnp.round(a / scale).astype("int8")
    return ((quantized @ w.T).astype("float32") * scale * w_scale).astype(a.dtype)


@tilelang.compute
def nearest(points, centers):
    squares = tnp.sum(centers.astype("float32") ** 2, axis=1)
    products = tnp.matmul(points, centers.T, dtype="float32")
    return tnp.argmin(squares[None, :] - 2 * products, axis=1)


@tilelang.compute
def rope(x, cos, sin):
    """x: (batch, heads, length, dim), cos and sin: (length, dim); the halves of dim are rotated into each other."""
    half = x.shape[-1] // 2
    turned = tnp.concat([-x[..., half:], x[..., :half]], axis=-1)
    return (x * cos + turned * sin).astype(x.dtype)


@tilelang.compute
def router(tokens, gate, experts=8):
    scores = tnp.softmax(tnp.matmul(tokens, gate, dtype="float32"), axis=-1)
    return tnp.topk(scores, experts)
