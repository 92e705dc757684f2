"""Rows of `gpu.py` about attention forward: plain source and `T.online_softmax` against cuDNN.

The best of a few tiles counts, as a tuner would choose it. Power limits large shapes, so that only rows of one run are
comparable.
"""

import itertools
import statistics

from gpu_products import close

# (batch, heads, length, dim), whether causal, and what is asked of plain source and of the operator in float16
SHAPES = (
    ((4, 32, 4096, 128), False, 1.10, 1.15),
    ((4, 32, 4096, 128), True, 1.12, 1.18),
    ((2, 32, 16384, 128), True, 1.14, 1.21),
    ((8, 32, 2048, 64), False, 1.08, 1.14),
)
_BFLOAT16 = (1.08, 1.14)  # asked of the geometric means over these shapes; of each shape no more than cuDNN has
# Rows, keys and threads of a block, by the dim: two warpgroups, or three whose registers are full; and stages, None for
# as many as fit. Two leave room for a second tile of queries.
TILES = {
    128: ((128, 128, 256, None), (192, 80, 384, None), (192, 80, 384, 2), (192, 64, 384, None)),
    64: ((128, 128, 256, None), (192, 128, 384, None)),
}


def attention_against_cudnn(bench, kernels) -> None:
    for shape, causal, *targets in SHAPES:
        _rows(bench, kernels, shape, causal, "float16", targets)


def bfloat16_against_cudnn(bench, kernels) -> None:
    """The same in bfloat16, with the geometric means of all."""
    times = [_rows(bench, kernels, shape, causal, "bfloat16", (1.0, 1.0)) for shape, causal, *_ in SHAPES]
    for what, sides, target in zip(("plain", "online"), zip(*times, strict=True), _BFLOAT16, strict=True):
        ours, theirs = map(statistics.geometric_mean, zip(*sides, strict=True))
        name = f"{what} bfloat16, geometric mean of {len(SHAPES)}"
        bench.row("cudnn", name, ours, theirs, "ms", "", theirs / ours, target, "cuDNN")


def _rows(bench, kernels, shape, causal: bool, dtype: str, targets) -> list[tuple[float, float]]:
    """The rows of a shape; gives our milliseconds and cuDNN's, of plain source and of the operator."""
    torch = bench.torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def cudnn(q, k, v):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    q, k, v = torch.randn(3, *shape, device="cuda").to(getattr(torch, dtype))
    expected, out = cudnn(q, k, v), torch.full_like(q, float("nan"))
    sides = []
    programs = (kernels.attention_program, kernels.attention_online_program)
    tiles = TILES[shape[-1]]
    for program, (block_M, block_N, threads, stages) in itertools.product(programs, tiles):
        configs = {"tl.enable_fast_math": True, **({} if stages is None else {"tl.stages": stages})}
        made = program(*shape, block_M, block_N, threads=threads, causal=causal, dtype=dtype)
        kernel = kernels.build(made, pass_configs=configs)
        kernel(q, k, v, out)
        close(out, expected, 1e-2, f"attention {shape} {block_M}x{block_N}")
        sides.append(kernel)
    times = bench.race(lambda: cudnn(q, k, v), *(lambda f=f: f(q, k, v, out) for f in sides))
    rival, mine = times[0], iter(times[1:])
    work = 4 * shape[0] * shape[1] * shape[2] ** 2 * shape[3] / (2 if causal else 1)
    found = []
    for what, target in zip(("plain", "online"), targets, strict=True):
        place, best = min(enumerate(itertools.islice(mine, len(tiles))), key=lambda side: side[1])
        block_M, block_N, _, stages = tiles[place]
        name = f"{what} {'x'.join(map(str, shape))}{' causal' * causal} {dtype} {block_M}x{block_N}"
        name += "" if stages is None else f" {stages} stages"
        figure = f"{work / best * 1e-9:.0f} TFLOP/s"
        bench.row("cudnn", name, best, rival, "ms", figure, rival / best, target, "cuDNN")
        found.append((best, rival))
    return found


ATTENTION = {"cudnn": attention_against_cudnn, "cudnn_bfloat16": bfloat16_against_cudnn}
