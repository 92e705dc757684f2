"""Rows of `cpu.py --level1`: computations without a schedule at small sizes, against PyTorch and `torch.compile`.

Each is a function that gives our call, PyTorch's call, and the tolerance.
"""

import level1_computations as ours
import torch
from torch.nn import functional


def _normal(*shape, dtype=None):
    return torch.randn(*shape, dtype=dtype or torch.float32)


def _matmul(m, n, k):
    a, b = _normal(m, k), _normal(k, n)
    return lambda: ours.matmul(a, b), lambda: a @ b, 1e-4


def _attention(causal):
    q, k, v = _normal(3, 2, 8, 256, 64).unbind()
    theirs = functional.scaled_dot_product_attention
    return lambda: ours.attention(q, k, v, causal=causal), lambda: theirs(q, k, v, is_causal=causal), 1e-4


def _softmax():
    x = _normal(512, 1024)
    return lambda: ours.softmax(x), lambda: torch.softmax(x, -1), 1e-4


def _log_softmax():
    x = _normal(512, 1024)
    return lambda: ours.log_softmax(x), lambda: torch.log_softmax(x, -1), 1e-4


def _layer_norm():
    x, w, b = _normal(512, 1024), _normal(1024), _normal(1024)
    return lambda: ours.layer_norm(x, w, b), lambda: functional.layer_norm(x, (1024,), w, b, 1e-5), 1e-4


def _rms_norm():
    x, residual, w = _normal(512, 1024), _normal(512, 1024), _normal(1024)

    def theirs():
        total = x + residual
        return total, functional.rms_norm(total, (1024,), w, 1e-5)

    return lambda: ours.rms_norm(x, residual, w), theirs, 1e-4


def _cross_entropy():
    x, labels = _normal(256, 8192), torch.randint(8192, (256,))
    narrow = labels.int()
    return lambda: ours.cross_entropy(x, narrow), lambda: functional.cross_entropy(x, labels), 1e-4


def _gelu():
    x, w, b = _normal(256, 256), _normal(256, 1024), _normal(1024)
    return lambda: ours.gelu_matmul(x, w, b), lambda: functional.gelu(torch.addmm(b, x, w)), 1e-4


def _gated():
    x, gate, up, down = _normal(128, 256), _normal(256, 704), _normal(256, 704), _normal(704, 256)
    return lambda: ours.gated_mlp(x, gate, up, down), lambda: (functional.silu(x @ gate) * (x @ up)) @ down, 1e-4


def _statistics():
    x = _normal(16, 32, 28, 28)

    def theirs():
        variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        return mean, variance

    return lambda: ours.batch_statistics(x), theirs, 1e-4


def _quantized():
    a, w = _normal(128, 256), torch.randint(-127, 128, (256, 256), dtype=torch.int8)
    scales = torch.rand(256)

    def theirs():
        scale = a.abs().amax(1, keepdim=True) / 127
        products = torch._int_mm(torch.round(a / scale).to(torch.int8), w.T)
        return products.float() * scale * scales

    return lambda: ours.quantized_matmul(a, w, scales), theirs, 1e-2


def _nearest():
    points, centers = _normal(4096, 32), _normal(128, 32)
    squares = (centers**2).sum(1)
    return lambda: ours.nearest(points, centers), lambda: (squares - 2 * (points @ centers.T)).argmin(1), 1e-2


def _rope():
    x, angles = _normal(1, 8, 256, 64), _normal(256, 64)
    cos, sin = angles.cos(), angles.sin()

    def theirs():
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    return lambda: ours.rope(x, cos, sin), theirs, 1e-4


def _router():
    tokens, gate = _normal(512, 256), _normal(256, 16)
    return lambda: ours.router(tokens, gate, 4), lambda: torch.topk(torch.softmax(tokens @ gate, -1), 4), 1e-2


ROWS = {
    "matmul 128^3": lambda: _matmul(128, 128, 128), "matmul 256^3": lambda: _matmul(256, 256, 256),
    "matmul 16x1024x1024": lambda: _matmul(16, 1024, 1024), "matmul 1x1024x1024": lambda: _matmul(1, 1024, 1024),
    "attention": lambda: _attention(False), "causal attention": lambda: _attention(True),
    "softmax 512x1024": _softmax, "log-softmax 512x1024": _log_softmax, "LayerNorm 512x1024": _layer_norm,
    "RMSNorm with residual 512x1024": _rms_norm, "cross entropy 256x8192": _cross_entropy,
    "GELU behind matmul 256x1024x256": _gelu, "gated MLP 128x704x256": _gated,
    "batch statistics 16x32x28x28": _statistics, "int8 quantization, matmul 128x256x256": _quantized,
    "k-means 4096x128x32": _nearest, "RoPE 1x8x256x64": _rope, "MoE router 512x256, 4 of 16": _router,
}  # fmt: skip
