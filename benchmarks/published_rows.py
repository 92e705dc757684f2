"""Kernels of `examples/` that `published.py` races, at sizes of models.

A row says which program it is, with which tiles it may be compiled, its arguments, and how its result is checked: by
the example's own reference in NumPy, on a part of the batch and of the heads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

FAST = {"tl.enable_fast_math": True}


@dataclass(frozen=True)
class Row:
    """One kernel.

    Attributes:
        tensors: Makes the arguments of a call by torch, in the order of the program.
        part: The arguments of the reference for a part of the result, and that part.
        asked: The time of published TileLang over ours.
        flop: Floating-point operations, or bytes if `in_bytes`.
    """

    name: str
    example: str
    function: str
    arguments: tuple[Any, ...]
    out_idx: list[int]
    tiles: tuple[Mapping[str, Any], ...]
    tensors: Callable[[Any], list[Any]]
    part: Callable[[list[Any], Any], tuple[list[Any], Any]]
    asked: float
    flop: float
    in_bytes: bool = False
    reference: Mapping[str, Any] = field(default_factory=dict)


def _normal(torch, *shape, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).half()


def _head(arguments, out):
    """Of arrays (batch, heads, ...) the first head."""
    return [x[:1, :1] for x in arguments], out[:1, :1]


def _linear() -> list[Row]:
    batch, heads, length, dim = 8, 32, 4096, 128
    tiles = tuple({"block_D": block, "threads": threads} for block in (64, 128) for threads in (128, 256))
    flop = batch * heads * length * (4 * 64 * dim * 2 + 4 * dim * dim)

    def retention(torch):
        decay = torch.log2(1 - 2.0 ** (-5 - torch.arange(heads, device="cuda") / 8))
        return [*(_normal(torch, batch, heads, length, dim, scale=dim**-0.25) for _ in range(3)), decay.float()]

    def first_head(arguments, out):
        *arrays, decay = arguments
        return [*(x[:1, :1] for x in arrays), 2.0 ** decay[:1]], out[:1, :1]

    def mamba2(torch):
        x = _normal(torch, batch, length, heads, dim)
        step = torch.rand(batch, length, heads, device="cuda") / 10
        b, c = (_normal(torch, batch, length, 1, dim, scale=dim**-0.25) for _ in range(2))
        return [x, step, -torch.rand(heads, device="cuda"), b, c]

    def second_axis(arguments, out):
        x, step, rate, b, c = arguments
        return [x[:1, :, :1], step[:1, :, :1], rate[:1], b[:1], c[:1]], out[:1, :, :1]

    def delta(torch):
        q, k = torch.nn.functional.normalize(torch.randn(2, batch, heads, length, dim, device="cuda"), dim=-1)
        gates = torch.rand(2, batch, heads, length, device="cuda")
        return [q.half(), k.half(), _normal(torch, batch, heads, length, dim), (1 - gates[0] / 10).log(), gates[1]]

    folder, shape = "06_linear_attention", (batch, heads, length, dim, dim)
    return [
        Row("retention", f"{folder}/retention.py", "retention", shape, [4], tiles, retention, first_head, 1.2, flop),
        Row(
            "Mamba 2", f"{folder}/mamba2.py", "mamba2", (batch, heads, 1, length, dim, dim), [5], tiles, mamba2,
            second_axis, 1.2, flop,
        ),
        Row(
            "gated delta rule", f"{folder}/gated_delta_rule.py", "gated_delta_rule", shape, [5], tiles, delta, _head,
            1.2, flop,
        ),
    ]  # fmt: skip


def _mla() -> list[Row]:
    heads, dim, rope = 128, 512, 64
    folder = "04_mla_decoding"

    def absorbed(batch, length, splits, asked):
        def tensors(torch):
            queries = [_normal(torch, batch, heads, size) for size in (dim, rope)]
            return queries + [_normal(torch, batch, length, size) for size in (dim, rope)]

        part = lambda arguments, out: ([x[:1] for x in arguments], out[:1])  # noqa: E731
        flop = 2 * batch * heads * length * (2 * dim + rope)
        name = f"MLA, batch {batch}, {length} keys" + f", {splits} splits" * (splits > 1)
        tiles = tuple({"block_H": 64, "block_N": 64, "threads": 256, "num_stages": stages} for stages in (1, 2))
        shape = (batch, heads, length, dim, rope, splits)
        return Row(name, f"{folder}/mla_absorbed.py", "mla_absorbed", shape, [4], tiles, tensors, part, asked, flop)

    batch, longest, page = 64, 8192, 64
    pages = longest // page

    def paged(torch):
        queries = [_normal(torch, batch, heads, size) for size in (dim, rope)]
        cache = [_normal(torch, batch * pages, page, size) for size in (dim, rope)]
        table = torch.randperm(batch * pages, device="cuda").int().view(batch, pages)
        return [*queries, *cache, table, torch.randint(longest // 2, longest, (batch,), device="cuda").int()]

    def first_sequence(arguments, out):
        q, q_rope, kv, k_rope, table, lengths = arguments
        return [q[:1], q_rope[:1], kv, k_rope, table[:1], lengths[:1]], out[:1]

    queries, length, chosen = 2048, 32768, 2048

    def sparse(torch):
        indices = torch.rand(queries, length, device="cuda").topk(chosen, dim=1).indices.int()
        return [_normal(torch, queries, heads, dim + rope), _normal(torch, length, dim + rope), indices]

    def first_queries(arguments, out):
        q, kv, indices = arguments
        return [q[:4], kv, indices[:4], dim], out[:4]

    one = ({"threads": 256},)
    return [
        absorbed(64, 8192, 1, 1.22),
        absorbed(128, 4096, 1, 1.22),
        absorbed(4, 32768, 16, 1.10),
        Row(
            f"MLA, pages of {page}, batch {batch}, to {longest} keys", f"{folder}/mla_paged.py", "mla_paged",
            (batch, heads, batch * pages, pages, dim, rope, 1), [6], one, paged, first_sequence, 1.10,
            2 * batch * heads * longest * 3 / 4 * (2 * dim + rope),
        ),
        Row(
            f"sparse MLA, {queries} queries, {chosen} keys", f"{folder}/mla_sparse.py", "mla_sparse",
            (queries, heads, length, chosen, dim, rope), [3], one, sparse, first_queries, 1.10,
            2 * queries * heads * chosen * (2 * dim + rope),
        ),
    ]  # fmt: skip


def _decoding(batch, heads, group, length, splits) -> Row:
    dim = 128

    def tensors(torch):
        cache = [_normal(torch, batch, heads, length, dim) for _ in range(2)]
        return [_normal(torch, batch, heads, group, dim), *cache]

    tiles = tuple({"block_H": rows, "block_N": columns} for rows in (16, 64) for columns in (64, 128))
    name = f"decoding, batch {batch}, {heads}x{group} heads, {length} keys"
    moved = 4 * batch * heads * length * dim
    return Row(
        name, "03_attention/flash_decoding.py", "flash_decoding", (batch, heads, group, length, dim, splits), [3],
        tiles, tensors, _head, 1.10, moved, in_bytes=True,
    )  # fmt: skip


def _attention() -> list[Row]:
    batch, kv_heads, group, length = 4, 8, 4, 4096

    def variant(name, dim, share, **options):
        def tensors(torch):
            heads = kv_heads * group
            q, *kv = (_normal(torch, batch, n, length, dim) for n in (heads, kv_heads, kv_heads))
            return [q, *kv, torch.rand(heads, device="cuda"), torch.randn(heads, device="cuda")]

        def part(arguments, out):
            q, k, v, slopes, sink = arguments
            return [q[:1, :group], k[:1, :1], v[:1, :1], slopes[:group], sink[:group]], out[:1, :group]

        large = {"block_M": 128, "block_N": 128, "threads": 256}
        small = {"block_M": 128, "block_N": 64, "threads": 256}
        flop = 4 * batch * kv_heads * group * length**2 * dim * share
        arguments = (batch, kv_heads, group, length, dim)
        tiles = tuple({**tile, **options} for tile in (large, small))
        return Row(
            name, "03_attention/attention_variants.py", "attention", arguments, [5, 6], tiles, tensors, part, 1.10,
            flop, reference=options,
        )  # fmt: skip

    heads, dim, lengths = 32, 128, [512 * n for n in (1, 8, 3, 7, 2, 5, 4, 6)]

    def packed(torch):
        starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
        return [*(_normal(torch, sum(lengths), heads, dim) for _ in range(3)), starts]

    def some_heads(arguments, out):
        *arrays, starts = arguments
        return [*(x[:, :1] for x in arrays), starts], out[:, :1]

    tiles = tuple({"block_M": 128, "block_N": columns, "threads": 256} for columns in (64, 128))
    return [
        variant("heads 32:8, causal", 128, 0.5),
        variant("heads 32:8, causal, window of 1024", 128, 0.25 - 0.03125, window=1024),
        variant("heads 32:8, causal, D 256", 256, 0.5),
        Row(
            "sequences of 512 to 4096", "03_attention/varlen_attention.py", "varlen_attention",
            (len(lengths), heads, max(lengths), dim), [4], tiles, packed, some_heads, 1.10,
            4 * heads * dim * sum(n * n for n in lengths),
        ),
    ]  # fmt: skip


_DECODING = ((1, 8, 4, 131072, 16), (1, 8, 8, 8192, 16), (16, 8, 8, 32768, 1), (64, 8, 16, 8192, 1))
ROWS = [
    *_linear(),
    *_mla(),
    *(_decoding(*shape) for shape in _DECODING),
    *_attention(),
]
