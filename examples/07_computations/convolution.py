"""A convolution in index notation, where array functions do not reach: a sum over a window and channels."""

import numpy as np

import tilelang
import tilelang.numpy as tnp
from tilelang.testing import to_device, to_host


@tilelang.compute
def conv2d(x, w, stride=1):
    """x: (images, height, width, channels), w: (window height, window width, channels, filters)."""
    N, H, W, C = x.shape
    KH, KW, _, F = w.shape
    i, j, c = tnp.reduce_axis(KH), tnp.reduce_axis(KW), tnp.reduce_axis(C)
    return tnp.compute(
        (N, (H - KH) // stride + 1, (W - KW) // stride + 1, F),
        lambda n, y, z, f: tnp.sum(x[n, y * stride + i, z * stride + j, c] * w[i, j, c, f], axis=(i, j, c)),
    )


def reference(x, w, stride):
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], axis=(1, 2))[:, ::stride, ::stride]
    return np.einsum("nyzcij,ijcf->nyzf", windows.astype(np.float32), w.astype(np.float32))


def main(images=2, size=20, channels=32, filters=48):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((images, size, size, channels), dtype=np.float32).astype(np.float16)
    w = rng.standard_normal((3, 3, channels, filters), dtype=np.float32).astype(np.float16)
    for stride in (1, 2):
        y = to_host(conv2d(*to_device(x, w), stride=stride))
        np.testing.assert_allclose(y.astype(np.float32), reference(x, w, stride), rtol=1e-2, atol=5e-2)
        print(f"conv2d: {x.shape} -> {y.shape}, stride {stride}, agrees with NumPy")


if __name__ == "__main__":
    main()
