"""Rows of `gpu.py` about attention forward: plain source and `T.online_softmax` against cuDNN.

The best of a few tiles counts, as a tuner would choose it. Power limits large shapes, so that only rows of one run are
comparable.
"""

import itertools

from gpu_products import close

# (batch, heads, length, dim), whether causal, dtype, and what is asked of plain source and of the operator
_SHAPES = (
    ((4, 32, 4096, 128), False, "float16", 1.10, 1.15),
    ((4, 32, 4096, 128), True, "float16", 1.12, 1.18),
    ((2, 32, 16384, 128), True, "float16", 1.14, 1.21),
    ((8, 32, 2048, 64), False, "float16", 1.08, 1.14),
    ((4, 32, 4096, 128), False, "bfloat16", 1.08, 1.14),
)
# Rows, keys and threads of a block, by the dim: two warpgroups, or three whose registers are full; and stages, None for
# as many as fit. Two leave room for a second tile of queries.
TILES = {
    128: ((128, 128, 256, None), (192, 80, 384, None), (192, 80, 384, 2), (192, 64, 384, None)),
    64: ((128, 128, 256, None), (192, 128, 384, None)),
}


def attention_against_cudnn(bench, kernels) -> None:
    torch = bench.torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def cudnn(q, k, v, causal):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    for shape, causal, dtype, plain, online in _SHAPES:
        q, k, v = torch.randn(3, *shape, device="cuda").to(getattr(torch, dtype))
        expected, out = cudnn(q, k, v, causal), torch.full_like(q, float("nan"))
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
        times = bench.race(lambda: cudnn(q, k, v, causal), *(lambda f=f: f(q, k, v, out) for f in sides))
        rival, mine = times[0], iter(times[1:])
        work = 4 * shape[0] * shape[1] * shape[2] ** 2 * shape[3] / (2 if causal else 1)
        for what, target in (("plain", plain), ("online", online)):
            place, best = min(enumerate(itertools.islice(mine, len(tiles))), key=lambda side: side[1])
            block_M, block_N, _, stages = tiles[place]
            name = f"{what} {'x'.join(map(str, shape))}{' causal' * causal} {dtype} {block_M}x{block_N}"
            name += "" if stages is None else f" {stages} stages"
            figure = f"{work / best * 1e-9:.0f} TFLOP/s"
            bench.row("cudnn", name, best, rival, "ms", figure, rival / best, target, "cuDNN")


ATTENTION = {"cudnn": attention_against_cudnn}
