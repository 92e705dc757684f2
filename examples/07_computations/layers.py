"""Parts of a model as mathematics: normalization, cross entropy, a router of experts, quantized products, k-means.

Each function says what is computed; which kernels that takes, with which tiles, is the compiler's choice.
"""

import numpy as np

import tilelang
import tilelang.numpy as tnp
from tilelang.testing import to_device, to_host


@tilelang.compute
def rms_norm(x, residual, weight, eps=1e-5):
    """The sum of x and the residual, and its normalization: (tokens, dim) each."""
    total = x + residual
    scale = 1 / tnp.sqrt(tnp.mean(total * total, axis=-1, keepdims=True) + eps)
    return total, (total * scale * weight).astype(x.dtype)


@tilelang.compute
def cross_entropy(logits, labels):
    """The mean over tokens; logits (tokens, classes), labels (tokens,)."""
    chosen = tnp.take_along_axis(logits, labels[:, None], axis=1)
    return tnp.mean(tnp.logsumexp(logits, axis=1) - tnp.squeeze(chosen, axis=1))


@tilelang.compute
def router(tokens, gate, experts=2):
    """The experts of each token and their weights: tokens (n, dim), gate (dim, experts)."""
    return tnp.topk(tnp.softmax(tokens @ gate, axis=-1), experts)


@tilelang.compute
def quantized_matmul(a, w, w_scale):
    """Rows of a are quantized to int8 by their largest value and multiplied by int8 weights (n, k)."""
    scale = tnp.max(tnp.abs(a), axis=1, keepdims=True) / 127
    quantized = tnp.round(a / scale).astype("int8")
    return ((quantized @ w.T).astype("float32") * scale * w_scale).astype(a.dtype)


@tilelang.compute
def nearest(points, centers):
    """The number of the nearest center of each point: (points, dim) and (centers, dim)."""
    distance = tnp.sum(centers * centers, axis=1)[None, :] - 2 * (points @ centers.T)
    return tnp.argmin(distance, axis=1)


def main(tokens=100, dim=192, classes=1000, experts=8):
    rng = np.random.default_rng(0)
    x, residual = rng.standard_normal((2, tokens, dim), dtype=np.float32)
    weight = rng.standard_normal(dim, dtype=np.float32)
    logits = rng.standard_normal((tokens, classes), dtype=np.float32)
    labels = rng.integers(0, classes, tokens).astype(np.int32)
    gate = rng.standard_normal((dim, experts), dtype=np.float32)
    w = rng.integers(-127, 128, (classes, dim)).astype(np.int8)
    w_scale = rng.uniform(0.005, 0.01, classes).astype(np.float32)
    centers = rng.standard_normal((37, dim), dtype=np.float32)

    total, normalized = map(to_host, rms_norm(*to_device(x, residual, weight)))
    expected = x + residual
    np.testing.assert_allclose(total, expected, rtol=1e-6)
    expected = expected / np.sqrt((expected**2).mean(axis=1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(normalized, expected, rtol=1e-4, atol=1e-5)
    print(f"rms_norm: {x.shape} agrees with NumPy")

    loss = to_host(cross_entropy(*to_device(logits, labels)))
    expected = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(tokens), labels]
    np.testing.assert_allclose(loss, expected.mean(), rtol=1e-5)
    print(f"cross_entropy: {logits.shape} agrees with NumPy")

    weights, chosen = map(to_host, router(*to_device(x, gate)))
    scores = np.exp(x @ gate - (x @ gate).max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights, -np.sort(-scores, axis=1)[:, :2], rtol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(scores, chosen, axis=1), weights, rtol=1e-4)
    print(f"router: {x.shape}, 2 of {experts} experts, agrees with NumPy")

    y = to_host(quantized_matmul(*to_device(x, w, w_scale)))
    scale = np.abs(x).max(axis=1, keepdims=True) / 127
    expected = np.rint(x / scale) @ w.T.astype(np.float32) * scale * w_scale
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=np.abs(expected).max() * 1e-2)
    print(f"quantized_matmul: {x.shape} @ {w.T.shape} agrees with NumPy")

    found = to_host(nearest(*to_device(x, centers)))
    np.testing.assert_array_equal(found, ((x[:, None, :] - centers) ** 2).sum(axis=2).argmin(axis=1))
    print(f"nearest: {tokens} points, {len(centers)} centers, agrees with NumPy")


if __name__ == "__main__":
    main()
