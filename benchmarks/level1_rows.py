"""The rows of `level1.py`: shapes, data, our side and the rivals'."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import level1_computations as ours

MODE = "max-autotune-no-cudagraphs"


@dataclass
class Sides:
    """What is called.

    Attributes:
        ours: Our side.
        rivals: The others, by name: a call, or several of which the fastest counts.
        candidates: All programs of ours, the one that is taken without measuring first: the rivals are the fastest of
            them, on our side the first, and the fastest of the first few.
    """

    ours: Callable[[], Any]
    rivals: dict[str, Callable[[], Any] | list[Callable[[], Any]]]
    candidates: list[Callable[[], Any]] = field(default_factory=list)


@dataclass
class Case:
    """A row, or one for each rival.

    Attributes:
        name: What is computed.
        sides: Makes the data and the calls.
        tolerance: Of the relative error of each result, as a norm; of indices, the share that may differ.
    """

    name: str
    sides: Callable[[Any], Sides]
    tolerance: float


@dataclass
class Goal:
    """What is asked of the ratios to a rival."""

    geomean: float
    least: float


@dataclass
class Group:
    """Rows with common goals, by rival."""

    cases: list[Case]
    goals: dict[str, Goal]


def close(torch, result, expected, tolerance: float) -> None:
    """Refuses a wrong result.

    Raises:
        ValueError: A result is wrong.
    """
    pairs = zip(_listed(result), _listed(expected), strict=True)
    for number, (mine, theirs) in enumerate(pairs):
        if theirs.dtype.is_floating_point:
            wrong = ((mine.double() - theirs.double()).norm() / theirs.double().norm()).item()
        else:
            wrong = (mine != theirs).double().mean().item()
        if not wrong <= tolerance:
            raise ValueError(f"wrong result {number}: {wrong:g} where {tolerance:g} is allowed")


def _listed(results) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]


def _compiled(torch, function):
    return torch.compile(function, mode=MODE, dynamic=False)


def _normal(torch, *shape, dtype="float16"):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(getattr(torch, dtype))


# -- matrix products -----------------------------------------------------------------------------------------------
# M, N, K
SHAPES = (
    *((n, n, n) for n in (256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384)),
    (1000, 1000, 1000), (4000, 4000, 4000), (5000, 5000, 5000), (3001, 3001, 3001), (1111, 2222, 3333),
    *((m, 8192, 8192) for m in (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    (1, 14336, 4096), (16, 14336, 4096), (64, 14336, 4096), (128, 4096, 14336),
    (64, 256, 16384), (128, 128, 16384), (256, 256, 16384), (512, 512, 16384), (1024, 1024, 16384),
    (4096, 6144, 4096), (4096, 28672, 4096), (4096, 4096, 14336), (2048, 4096, 4096),
    (2048, 10240, 8192), (2048, 8192, 28672), (512, 128256, 4096), (256, 57344, 8192),
)  # fmt: skip


def _product(shape) -> Case:
    def sides(torch) -> Sides:
        m, n, k = shape
        a, b = _normal(torch, m, k), _normal(torch, k, n)
        return Sides(lambda: ours.matmul(a, b), {"cuBLAS": lambda: a @ b})

    return Case("x".join(map(str, shape)), sides, 2e-3)


# Some of these sizes, and others, on which every program is measured that the tuner would consider
SEARCHED = (
    (512, 512, 512), (1536, 1536, 1536), (2560, 2560, 2560), (64, 4096, 4096), (200, 304, 5000), (512, 512, 16384),
    (768, 768, 12288), (128, 4096, 14336), (512, 4096, 4096), (2048, 4096, 4096), (16, 8192, 8192),
)  # fmt: skip
FIRST, FIVE = "best of all", "best of all, five measured"


def _searched(shape) -> Case:
    def sides(torch) -> Sides:
        m, n, k = shape
        a, b = _normal(torch, m, k), _normal(torch, k, n)
        kernels = [kernel for kernel in ours.kernels_of(ours.matmul, a, b) if _is_right(torch, kernel, a, b)]
        return Sides(lambda: ours.matmul(a, b), {}, [lambda kernel=kernel: kernel(a, b) for kernel in kernels])

    return Case("x".join(map(str, shape)), sides, 2e-3)


def _is_right(torch, kernel, a, b) -> bool:
    close(torch, kernel(a, b), a @ b, 2e-3)
    return True


# -- attention -----------------------------------------------------------------------------------------------------
@dataclass
class Attention:
    """An attention: (batch, heads, length, dim), heads of k and v, and what is put around it."""

    name: str
    shape: tuple[int, int, int, int]
    groups: int
    keys: int = 0  # as many as queries without it
    causal: bool = False
    window: int | None = None
    soft_cap: float | None = None
    alibi: bool = False
    documents: int = 0

    def case(self) -> Case:
        """The row."""
        return Case(self.name, self.sides, 1e-2)

    def sides(self, torch) -> Sides:
        """Data and calls."""
        batch, heads, length, dim = self.shape
        keys = self.keys or length
        q = _normal(torch, *self.shape)
        k, v = (_normal(torch, batch, self.groups, keys, dim) for _ in range(2))
        slopes = torch.exp2(-8 * torch.arange(1, heads + 1, device="cuda") / heads) if self.alibi else None
        documents = None
        if self.documents:
            documents = torch.arange(keys, device="cuda", dtype=torch.int32) // (keys // self.documents)
        rivals = {"FlexAttention": self._flex(torch, q, k, v, slopes, documents)}
        plain = self.window is None and self.soft_cap is None and not self.alibi and not self.documents
        if length == 1:
            return Sides(lambda: ours.decoding(q, k, v), rivals)
        if plain:
            rivals["cuDNN"] = self._cudnn(torch, q, k, v)
        if plain and self.groups == heads and dim <= 128:  # a tile of that kernel holds no longer rows
            rivals["Level 2"] = self._level2(torch, q, k, v)
        options = {"window": self.window, "soft_cap": self.soft_cap, "slopes": slopes, "documents": documents}
        given = {name: value for name, value in options.items() if value is not None}
        return Sides(lambda: ours.attention(q, k, v, causal=self.causal, **given), rivals)

    def _flex(self, torch, q, k, v, slopes, documents):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        length, keys, window, cap = q.shape[2], k.shape[2], self.window, self.soft_cap

        def mask(b, h, i, j):
            keep = i >= j if self.causal else i >= 0
            if window is not None:
                keep = keep & (i - j < window)
            if documents is not None:
                keep = keep & (documents[i] == documents[j])
            return keep

        def score(value, b, h, i, j):
            if cap is not None:
                value = cap * torch.tanh(value / cap)
            return value if slopes is None else value + slopes[h] * (j - i)

        masked = self.causal or window is not None or documents is not None
        blocks = create_block_mask(mask, None, None, length, keys, device="cuda") if masked else None
        modified = score if cap is not None or slopes is not None else None
        flex = torch.compile(flex_attention, dynamic=False)
        grouped = self.groups != q.shape[1]
        return lambda: flex(q, k, v, score_mod=modified, block_mask=blocks, enable_gqa=grouped)

    def _cudnn(self, torch, q, k, v):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        attend, grouped = torch.nn.functional.scaled_dot_product_attention, self.groups != q.shape[1]

        def call():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return attend(q, k, v, is_causal=self.causal, enable_gqa=grouped)

        return call

    def _level2(self, torch, q, k, v):
        import gpu_kernels
        from gpu_attention import TILES

        kernels = []
        for block_M, block_N, threads in dict.fromkeys(tile[:3] for tile in TILES[self.shape[-1]]):
            program = gpu_kernels.attention_online_program(
                *self.shape, block_M, block_N, threads=threads, causal=self.causal
            )
            kernels.append(gpu_kernels.build(program, out_idx=[3]))  # as exact as ours
        return [lambda kernel=kernel: kernel(q, k, v) for kernel in kernels]


ATTENTION = (
    Attention("full D 128", (4, 32, 4096, 128), 32),
    Attention("causal D 128", (4, 32, 4096, 128), 32, causal=True),
    Attention("causal, heads grouped by 4", (4, 32, 4096, 128), 8, causal=True),
    Attention("causal, window of 1024", (4, 32, 4096, 128), 32, causal=True, window=1024),
    Attention("soft cap", (4, 32, 4096, 128), 32, soft_cap=30.0),
    Attention("causal, ALiBi", (4, 32, 4096, 128), 32, causal=True, alibi=True),
    Attention("8 documents", (4, 32, 4096, 128), 32, documents=8),
    Attention("full D 64", (8, 32, 2048, 64), 32),
    Attention("causal D 256", (4, 16, 4096, 256), 16, causal=True),
    Attention("decoding, heads grouped by 4", (16, 32, 1, 128), 8, keys=8192),
)


# -- layers --------------------------------------------------------------------------------------------------------
def _softmax(torch) -> Sides:
    x = _normal(torch, 16384, 4096)
    theirs = _compiled(torch, lambda x: torch.softmax(x, -1))
    return Sides(lambda: ours.softmax(x), {"torch.compile": lambda: theirs(x)})


def _log_softmax(torch) -> Sides:
    x = _normal(torch, 8192, 32768)
    theirs = _compiled(torch, lambda x: torch.log_softmax(x, -1))
    return Sides(lambda: ours.log_softmax(x), {"torch.compile": lambda: theirs(x)})


def _layer_norm(torch) -> Sides:
    x, weight, bias = _normal(torch, 16384, 4096), _normal(torch, 4096), _normal(torch, 4096)
    theirs = _compiled(torch, lambda x, w, b: torch.nn.functional.layer_norm(x, (x.shape[1],), w, b, 1e-5))
    return Sides(lambda: ours.layer_norm(x, weight, bias), {"torch.compile": lambda: theirs(x, weight, bias)})


def _rms_norm(torch) -> Sides:
    x, residual, weight = _normal(torch, 16384, 4096), _normal(torch, 16384, 4096), _normal(torch, 4096)

    def function(x, residual, weight):
        total = x.float() + residual.float()
        scale = torch.rsqrt((total * total).mean(-1, keepdim=True) + 1e-5)
        return total.to(x.dtype), (total * scale * weight.float()).to(x.dtype)

    theirs = _compiled(torch, function)
    return Sides(lambda: ours.rms_norm(x, residual, weight), {"torch.compile": lambda: theirs(x, residual, weight)})


def _cross_entropy(torch) -> Sides:
    logits = _normal(torch, 4096, 128256)
    labels = torch.randint(128256, (4096,), device="cuda")
    narrow = labels.int()
    theirs = _compiled(torch, lambda x, y: torch.nn.functional.cross_entropy(x.float(), y))
    return Sides(lambda: ours.cross_entropy(logits, narrow), {"torch.compile": lambda: theirs(logits, labels)})


def _gelu(torch) -> Sides:
    x, w, bias = _normal(torch, 4096, 4096), _normal(torch, 4096, 16384), _normal(torch, 16384)
    theirs = _compiled(torch, lambda x, w, b: torch.nn.functional.gelu(x @ w + b))
    return Sides(lambda: ours.gelu_matmul(x, w, bias), {"torch.compile": lambda: theirs(x, w, bias)})


def _gated(torch) -> Sides:
    x = _normal(torch, 4096, 4096)
    gate, up, down = (_normal(torch, *shape) / 64 for shape in ((4096, 14336), (4096, 14336), (14336, 4096)))
    theirs = _compiled(torch, lambda x, g, u, d: (torch.nn.functional.silu(x @ g) * (x @ u)) @ d)
    return Sides(lambda: ours.gated_mlp(x, gate, up, down), {"torch.compile": lambda: theirs(x, gate, up, down)})


def _statistics(torch) -> Sides:
    x = _normal(torch, 64, 256, 56, 56)

    def function(x):
        variance, mean = torch.var_mean(x.float(), dim=(0, 2, 3), correction=0)
        return mean, variance

    theirs = _compiled(torch, function)
    return Sides(lambda: ours.batch_statistics(x), {"torch.compile": lambda: theirs(x)})


def _quantized(torch) -> Sides:
    a = _normal(torch, 4096, 4096)
    w = torch.randint(-127, 128, (4096, 4096), device="cuda", dtype=torch.int8)
    scales = torch.rand(4096, device="cuda") * 0.01

    def function(a, w, scales):
        scale = a.float().abs().amax(1, keepdim=True) / 127
        quantized = torch.round(a / scale).to(torch.int8)
        return (torch._int_mm(quantized, w.T).float() * scale * scales).to(a.dtype)

    theirs = _compiled(torch, function)
    return Sides(lambda: ours.quantized_matmul(a, w, scales), {"torch.compile": lambda: theirs(a, w, scales)})


def _nearest(torch) -> Sides:
    points, centers = _normal(torch, 131072, 128), _normal(torch, 1024, 128)

    def function(points, centers):
        squares = (centers.float() ** 2).sum(1)
        return (squares - 2 * (points @ centers.T).float()).argmin(1)

    theirs = _compiled(torch, function)
    return Sides(lambda: ours.nearest(points, centers), {"torch.compile": lambda: theirs(points, centers)})


def _rope(torch) -> Sides:
    x = _normal(torch, 4, 32, 4096, 128)
    rates = 10000 ** (-torch.arange(0, 128, 2, device="cuda") / 128)
    angles = torch.outer(torch.arange(4096, device="cuda"), rates).repeat(1, 2)
    cos, sin = angles.cos().half(), angles.sin().half()

    def function(x, cos, sin):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    theirs = _compiled(torch, function)
    return Sides(lambda: ours.rope(x, cos, sin), {"torch.compile": lambda: theirs(x, cos, sin)})


def _router(torch) -> Sides:
    tokens, gate = _normal(torch, 16384, 4096), _normal(torch, 4096, 64) / math.sqrt(4096)

    def function(tokens, gate):
        return torch.topk(torch.softmax((tokens @ gate).float(), -1), 8)

    theirs = _compiled(torch, function)
    return Sides(lambda: ours.router(tokens, gate), {"torch.compile": lambda: theirs(tokens, gate)})


LAYERS = (
    Case("softmax 16384x4096", _softmax, 1e-2),
    Case("log-softmax 8192x32768", _log_softmax, 1e-2),
    Case("LayerNorm 16384x4096", _layer_norm, 1e-2),
    Case("RMSNorm with residual 16384x4096", _rms_norm, 1e-2),
    Case("cross entropy 4096x128256", _cross_entropy, 1e-3),
    Case("GELU behind matmul 4096x16384x4096", _gelu, 1e-2),
    Case("gated MLP 4096x14336x4096", _gated, 1e-2),
    Case("batch statistics 64x256x56x56", _statistics, 1e-2),
    Case("int8 quantization, matmul 4096^3", _quantized, 1e-2),
    Case("k-means 131072x1024x128", _nearest, 1e-2),  # the rival rounds distances
    Case("RoPE 4x32x4096x128", _rope, 1e-2),
    Case("MoE router 16384x4096, 8 of 64", _router, 2e-2),  # the rival rounds scores
)


GROUPS = {
    "layers": Group(list(LAYERS), {"torch.compile": Goal(1.3, 0.95)}),
    "attention": Group(
        [each.case() for each in ATTENTION],
        {"FlexAttention": Goal(1.15, 1.0), "cuDNN": Goal(1.0, 0.95), "Level 2": Goal(0.97, 0.97)},
    ),
    "search": Group([_searched(shape) for shape in SEARCHED], {FIRST: Goal(0.95, 0.9), FIVE: Goal(0.98, 0.95)}),
    "matmul": Group([_product(shape) for shape in SHAPES], {"cuBLAS": Goal(1.03, 0.95)}),
}
