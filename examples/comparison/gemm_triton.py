"""The plain GEMM in Triton, as its documentation tells to write it for a Hopper GPU: descriptors, and its own tuner.

It stands here to be compared with; nothing else uses it.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

NUM_SMS = 132
TILES = ((128, 256, 64, 3, 8), (256, 128, 64, 3, 8), (128, 128, 64, 4, 8), (128, 128, 64, 4, 4), (64, 128, 64, 6, 4))


def set_blocks(arguments):
    BM, BN, BK = (arguments[name] for name in ("BM", "BN", "BK"))
    arguments["A"].block_shape, arguments["B"].block_shape, arguments["C"].block_shape = [BM, BK], [BK, BN], [BM, BN]


def configs():
    return [
        triton.Config(
            {"BM": bm, "BN": bn, "BK": bk, "BLOCKS": blocks}, num_stages=stages, num_warps=warps, pre_hook=set_blocks
        )
        for bm, bn, bk, stages, warps in TILES
        for blocks in (NUM_SMS, 1 << 30)  # blocks that stay, or one for each tile
    ]


@triton.autotune(configs(), key=["M", "N", "K"])
@triton.jit
def gemm_kernel(
    A, B, C, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BLOCKS: tl.constexpr, GROUP: tl.constexpr = 8,
):  # fmt: skip
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0)):
        group = tile // (GROUP * columns)
        height = min(rows - group * GROUP, GROUP)
        within = tile % (GROUP * columns)
        row = (group * GROUP + within % height) * BM
        column = within // height * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(A.load([row, k]), B.load([k, column]), total)
        C.store([row, column], total.to(tl.float16))


def matmul(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    M, N, K = a.shape[0], b.shape[1], a.shape[1]
    described = [TensorDescriptor.from_tensor(x, [1, 1]) for x in (a, b, c)]

    def grid(meta):
        return (min(meta["BLOCKS"], triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"])),)

    gemm_kernel[grid](*described, M, N, K)
