"""An implicit-gemm convolution in the style of published TileLang, with its check against PyTorch."""

import torch
from compatible_programs import close

import tilelang.language as T


def convolution(images, channels, height, width, filters, kernel, stride, dilation, pad, block_M, block_N, block_K, stages, threads):
    """Images (N, H, W, C) by filters (K, K, C, F)."""
    high, wide = ((size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for size in (height, width))
    pixels, taps = images * high * wide, kernel * kernel * channels

    @T.prim_func
    def main(
        data: T.Tensor((images, height, width, channels), "float16"),
        weight: T.Tensor((kernel, kernel, channels, filters), "float16"),
        out: T.Tensor((images, high, wide, filters), "float16"),
    ):
        with T.Kernel(T.ceildiv(filters, block_N), T.ceildiv(pixels, block_M), threads=threads) as (bx, by):
            data_s = T.alloc_shared((block_M, block_K), "float16")
            weight_s = T.alloc_shared((block_K, block_N), "float16")
            sums = T.alloc_fragment((block_M, block_N), "float32")
            rows = T.Tensor((taps, filters), "float16", weight.data)
            results = T.Tensor((pixels, filters), "float16", out.data)
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(taps, block_K), num_stages=stages):
                T.im2col(data, data_s, by, k, kernel, stride, dilation, pad)
                T.copy(rows[k * block_K, bx * block_N], weight_s)
                T.gemm(data_s, weight_s, sums)
            T.copy(sums, results[by * block_M, bx * block_N])

    return main


def check_convolution(
    on, images, channels, height, width, filters, kernel, stride, dilation, pad,
    block_M=64, block_N=128, block_K=32, stages=3, threads=256,
):  # fmt: skip
    """The kernel, which is right."""
    data = on.normal(images, height, width, channels, dtype="float16")
    weight = on.normal(kernel, kernel, channels, filters, dtype="float16") / (kernel * kernel * channels) ** 0.5
    window = (kernel, stride, dilation, pad)
    made = on.compile(
        convolution(images, channels, height, width, filters, *window, block_M, block_N, block_K, stages, threads), out_idx=-1
    )
    expected = torch.conv2d(
        data.permute(0, 3, 1, 2).float(), weight.permute(3, 2, 0, 1).float(), stride=stride, dilation=dilation, padding=pad
    )
    close(made(data, weight), expected.permute(0, 2, 3, 1), 2e-3)
    return made
