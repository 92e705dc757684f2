"""Rows of `gpu.py` about the kernels of `examples/`, with tiles that suit a GPU.

Attention backward, decoding, MLA, gemms of quantized weights, grouped gemms and gated MLP; each is checked before it is
measured. Where several tiles are listed, the fastest counts, as a tuner would choose it.
"""

from cpu_kernels import example
from gpu_products import close

# (batch, heads, length, dim); (block_M, block_N, threads)
BACKWARD = (4, 32, 4096, 128)
BACKWARD_TILES = ((64, 128, 256), (64, 64, 128))
# batch, length of the cache, and TFLOP/s that are asked: 1.22 times those of published TileLang
MLA = ((64, 8192, 550), (128, 4096, 550))
# (batch, heads of the cache, heads of a group, length), and a number of splits
_DECODE = (((1, 8, 4, 131072), 16), ((1, 8, 8, 8192), 16), ((16, 8, 8, 32768), 1), ((64, 8, 16, 8192), 1))
_DECODE_TILES = (64, 128)  # keys of a tile
# M, what is asked against float16, and (block_M, block_N, block_K, num_stages, threads) with what else is set.
# To read the 33.5 MB of packed weights alone takes 13.1 to 13.9 us, so that no kernel can be more than 3.6, 3.2 and 3.3
# times as fast as cuBLAS with 1, 16 and 64 rows; ours does not wait for memory: see
# results/w4a16-bounds-, w4a16-structure- and streamed-loads-nvidia-h200.json.
_TWO_PER_SM = {"tl.split": 2, "tl.stages": 4}  # 256 blocks, of which each multiprocessor holds two
W4A16 = (
    (1, 3.4, (((8, 128, 256, 4, 256), {}), ((8, 64, 256, 4, 128), _TWO_PER_SM))),
    (16, 3.2, (((16, 128, 256, 4, 256), {}), ((16, 64, 256, 4, 128), _TWO_PER_SM))),
    (64, 2.0, (((64, 128, 128, 4, 256), {}), ((64, 128, 256, 4, 256), {}))),
    (4096, 0.95, (((256, 128, 64, 4, 256), {}), ((256, 128, 128, 4, 256), {}))),
)
GROUPED_TILES = ((128, 128, 64), (128, 192, 64), (128, 256, 64))
# (block_M, block_N, block_K, num_stages, threads), and the panel where it is another than by default
MLP_TILES = ((128, 128, 64, 4, 256), (128, 64, 64, 4, 256), (128, 64, 64, 4, 256, 8))


def _row(bench, group: str, name: str, sides, theirs, work: float, target: float, what: str) -> None:
    """A row for the fastest of our sides, (tile, call) each, against the rival; `work` in FLOP."""
    rival, *times = bench.race(theirs, *(call for _, call in sides))
    best, number = min(zip(times, range(len(times)), strict=True))
    name = f"{name} {'x'.join(map(str, sides[number][0]))}"
    bench.row(group, name, best, rival, "ms", f"{work / best * 1e-9:.0f} TFLOP/s", rival / best, target, what)


def backward_rows(bench, kernels) -> None:
    """Attention backward with dQ in float16, against cuDNN."""
    torch = bench.torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    module = example("03_attention/attention_backward.py")
    q, k, v, grad = torch.randn(4, *BACKWARD, device="cuda").half()
    for causal in (False, True):
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        lse = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[1]
        expected = torch.autograd.grad(out, leaves, grad, retain_graph=True)
        delta = kernels.build(module.attention_delta.get_tir(*BACKWARD), out_idx=[3, 4, 5])
        sides = []
        for block_M, block_N, threads in BACKWARD_TILES:
            program = module.attention_backward.get_tir(
                *BACKWARD, block_M=block_M, block_N=block_N, causal=causal, threads=threads
            )
            main = kernels.build(program, out_idx=[7, 8], pass_configs={"tl.enable_fast_math": True})

            def gradients(out=out, lse=lse, main=main):
                log2, sums, dq = delta(out.detach(), grad, lse)
                dk, dv = main(q, k, v, grad, log2, sums, dq)
                return dq.half(), dk, dv

            for mine, right, name in zip(gradients(), expected, ("dQ", "dK", "dV"), strict=True):
                close(mine, right, 5e-3, f"{name} of attention backward {block_M}x{block_N}")
            sides.append(((block_M, block_N), gradients))
        theirs = lambda out=out, x=leaves: torch.autograd.grad(out, x, grad, retain_graph=True)  # noqa: E731
        work = 10 * BACKWARD[0] * BACKWARD[1] * BACKWARD[2] ** 2 * BACKWARD[3] / (2 if causal else 1)
        name = f"{'x'.join(map(str, BACKWARD))}{' causal' * causal}"
        _row(bench, "backward", name, sides, theirs, work, 1.0, "cuDNN")


def mla_rows(bench, kernels) -> None:
    """MLA with absorbed projections: 128 heads, 512 + 64."""
    torch = bench.torch
    module = example("04_mla_decoding/mla_absorbed.py")
    heads, dim, rope_dim = 128, 512, 64
    for batch, length, asked in MLA:
        q, q_rope = (torch.randn(batch, heads, size, device="cuda").half() for size in (dim, rope_dim))
        kv, k_rope = (torch.randn(batch, length, size, device="cuda").half() for size in (dim, rope_dim))
        program = module.mla_absorbed.get_tir(batch, heads, length, dim, rope_dim)
        kernel = kernels.build(program, out_idx=[4], pass_configs={"tl.enable_fast_math": True})
        keys, queries = torch.cat((kv, k_rope), -1)[:, None], torch.cat((q, q_rope), -1)[:, :, None]
        some = slice(0, 2)  # of the batch: scores of all would not fit
        scores = (queries[some].float() @ keys[some].float().mT) * (dim + rope_dim) ** -0.5
        expected = (scores.softmax(-1) @ kv[some, None].float())[:, :, 0]
        close(kernel(q, q_rope, kv, k_rope)[some], expected, 5e-3, "MLA")
        mine, = bench.race(lambda: kernel(q, q_rope, kv, k_rope))
        rate = 2 * batch * heads * length * (2 * dim + rope_dim) / mine * 1e-9
        bench.row("mla", f"batch {batch}, {length} keys", mine, None, "ms", f"{rate:.0f} TFLOP/s", rate / asked, 1.0,
                  f"{asked} TFLOP/s")


def decode_rows(bench, kernels) -> None:
    """Flash decoding, against the rate at which the device copies; keys and values are read once.

    The copy of a large tensor takes no notice of launches and of the first and last bytes, which are a part of each
    call: the rate at which a copy moves as many bytes as a row reads is printed beside it.
    """
    torch = bench.torch
    functional = torch.nn.functional
    module = example("03_attention/flash_decoding.py")
    dim = 128
    for (batch, kv_heads, group, length), splits in _DECODE:
        q = torch.randn(batch, kv_heads, group, dim, device="cuda").half()
        k, v = torch.randn(2, batch, kv_heads, length, dim, device="cuda").half()
        copied = torch.empty_like(k)
        theirs = lambda q=q, k=k, v=v: functional.scaled_dot_product_attention(q, k, v)  # noqa: E731
        sides = []
        for keys in _DECODE_TILES:
            program = module.flash_decoding.get_tir(batch, kv_heads, group, length, dim, splits, block_N=keys)
            kernel = kernels.build(program, out_idx=[3], pass_configs={"tl.enable_fast_math": True})
            close(kernel(q, k, v), theirs(), 5e-3, f"decoding, {keys} keys at once")
            sides.append(lambda p=(q, k, v), f=kernel: f(*p))
        rival, copy, *times = bench.race(theirs, lambda k=k, out=copied: out.copy_(k), *sides)
        best, number = min(zip(times, range(len(times)), strict=True))
        rate = 2 * k.nbytes / best * 1e-6
        name = f"batch {batch}, {kv_heads}x{group} heads, {length} keys"
        print(f"{name}: a copy moves as many bytes at {2 * k.nbytes / copy * 1e-6:.0f} GB/s")
        name += f" by {_DECODE_TILES[number]}"
        figure = f"{rate:.0f} GB/s"
        bench.row("decode", name, best, rival, "ms", figure, rate / bench.copy_rate, 0.90, "copy rate")


def quantized_rows(bench, kernels) -> None:
    """Weights of four bits, against cuBLAS with those of float16."""
    torch = bench.torch
    module = example("05_quantized_gemm/w4a16_gemm.py")
    size, group = 8192, 128
    packed = torch.randint(-(2**31), 2**31, (size, size // 8), dtype=torch.int32, device="cuda")
    scales = torch.rand(size // group, size, device="cuda").half() / 8
    word, bit, half = module.place(torch.arange(size, device="cuda"), 64)
    nibbles = packed[:, word] >> bit + half * 16 & 15
    packed = packed.view(torch.uint32)
    weights = ((nibbles.half() - 8).view(size, -1, group) * scales.T[..., None]).view(size, size)
    for rows, asked, tiles in W4A16:
        a = torch.randn(rows, size, device="cuda").half()
        c = torch.empty(rows, size, device="cuda").half()
        sides = []
        for tile, options in tiles:
            program = module.w4a16_gemm.get_tir(rows, size, size, group, *tile)
            kernel = kernels.build(program, out_idx=[3], pass_configs=options)
            close(kernel(a, packed, scales), a @ weights.T, 2e-3, f"W4A16 {rows} {tile}")
            sides.append((tile[:3], lambda a=a, kernel=kernel: kernel(a, packed, scales)))
        theirs = lambda a=a, c=c: torch.matmul(a, weights.T, out=c)  # noqa: E731
        _row(bench, "quantized", f"W4A16 {rows}x{size}x{size}", sides, theirs, 2 * rows * size**2, asked, "cuBLAS")


def grouped_rows(bench, kernels) -> None:
    """Uneven groups, bfloat16, against torch's grouped gemm."""
    torch = bench.torch
    module = example("02_gemm/grouped_gemm.py")
    size, total = 4096, 16384
    for groups in (8, 64):
        same = torch.Generator().manual_seed(0)  # groups of other sizes would be another row
        cuts = torch.randint(0, total, (groups - 1,), generator=same).sort().values
        offsets = torch.cat((torch.tensor([0]), cuts, torch.tensor([total]))).int().cuda()
        a = torch.randn(total, size, device="cuda").bfloat16()
        b = torch.randn(groups, size, size, device="cuda").bfloat16()
        theirs = lambda a=a, b=b, offsets=offsets: torch._grouped_mm(a, b, offs=offsets[1:])  # noqa: E731
        sides = []
        for tile in GROUPED_TILES:
            program = module.grouped.get_tir(groups, total, size, size, *tile, dtype="bfloat16")
            kernel = kernels.build(program, out_idx=[3])
            close(kernel(a, b, offsets), theirs(), 1e-2, "grouped gemm")
            sides.append((tile, lambda a=a, b=b, o=offsets, kernel=kernel: kernel(a, b, o)))
        name = f"{groups} groups of {total}x{size}x{size}"
        _row(bench, "grouped", name, sides, theirs, 2 * total * size**2, 1.15, "torch")


def mlp_rows(bench, kernels) -> None:
    """The first half of a gated MLP, against two products of cuBLAS and the elementwise rest."""
    torch = bench.torch
    module = example("02_gemm/gated_mlp.py")
    tokens, hidden, inner = 4096, 4096, 14336
    x = torch.randn(tokens, hidden, device="cuda").half()
    gate, up = (torch.randn(2, hidden, inner, device="cuda") / hidden**0.5).half()
    theirs = lambda: torch.nn.functional.silu(x @ gate) * (x @ up)  # noqa: E731
    sides = []
    for tile in MLP_TILES:
        program = module.gated_mlp.get_tir(tokens, hidden, inner, *tile)
        kernel = kernels.build(program, out_idx=[3], pass_configs={"tl.enable_fast_math": True})
        close(kernel(x, gate, up), theirs(), 5e-3, f"gated MLP {tile}")
        sides.append((tile[:3], lambda kernel=kernel: kernel(x, gate, up)))
    work = 4 * tokens * hidden * inner
    _row(bench, "mlp", f"{tokens}x{hidden}x{inner}", sides, theirs, work, 1.15, "torch")


EXAMPLES = {
    "backward": backward_rows, "mla": mla_rows, "decode": decode_rows, "quantized": quantized_rows,
    "grouped": grouped_rows, "mlp": mlp_rows,
}  # fmt: skip
