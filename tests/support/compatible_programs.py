"""Whole programs in the style of published TileLang, each with its check against PyTorch, for any size and machine.

A check takes `Machine` (how to compile and where the tensors lie) and sizes: small ones for the simulator, real ones
for a GPU. It raises if a result is wrong.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch

import tilelang
import tilelang.language as T

LOG2E = math.log2(math.e)
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


@dataclass
class Machine:
    """Where programs run: the device of the tensors, and what they are compiled with."""

    device: str
    options: dict[str, Any] = field(default_factory=dict)

    def compile(self, func: Any, out_idx: Any = None) -> Any:
        """A callable kernel."""
        return tilelang.compile(func, out_idx=out_idx, **self.options)

    def jit(self, function: Any) -> Any:
        """A callable function of eager style."""
        return tilelang.jit(function, **self.options)

    def normal(self, *shape: int, dtype: str = "float32", seed: int = 0) -> torch.Tensor:
        """Normally distributed numbers, the same on each device."""
        numbers = torch.Generator().manual_seed(seed + sum(shape))
        return torch.randn(shape, generator=numbers).to(DTYPES[dtype]).to(self.device)

    def zeros(self, *shape: int, dtype: str = "float32") -> torch.Tensor:
        """Zeros."""
        return torch.zeros(shape, dtype=DTYPES[dtype], device=self.device)


def close(actual: torch.Tensor, expected: torch.Tensor, part: float) -> None:
    """Every element differs by at most `part` of the largest one expected."""
    actual, expected = actual.float(), expected.float()
    assert actual.shape == expected.shape
    assert torch.isfinite(actual).all()
    worst, allowed = (actual - expected).abs().max().item(), part * expected.abs().max().item()
    assert worst <= allowed, f"differs by {worst}, allowed are {allowed}"


# -- sparse attention with a latent cache ------------------------------------------------------------------------------
def sparse_mla(queries, keys, heads, dim, tail, chosen, block_H, block_K, stages, threads, dtype="bfloat16"):
    """Each query attends to the rows of the cache that an index tensor names; -1 names none."""
    scale = LOG2E / math.sqrt(dim + tail)

    @T.prim_func
    def main(
        Q: T.Tensor([queries, heads, dim + tail], dtype),
        KV: T.Tensor([keys, dim + tail], dtype),
        Rows: T.Tensor([queries, chosen], "int32"),
        O: T.Tensor([queries, heads, dim], dtype),
        LSE: T.Tensor([queries, heads], "float32"),
    ):
        with T.Kernel(T.ceildiv(heads, block_H), queries, threads=threads) as (bh, s):
            first = bh * block_H
            last = first + block_H
            q, q_tail = T.alloc_shared([block_H, dim], dtype), T.alloc_shared([block_H, tail], dtype)
            kv, kv_tail = T.alloc_shared([block_K, dim], dtype), T.alloc_shared([block_K, tail], dtype)
            weights = T.alloc_shared([block_H, block_K], dtype)
            used = T.alloc_fragment([block_K], "bool")
            acc = T.alloc_fragment([block_H, dim], "float32")
            scores = T.alloc_fragment([block_H, block_K], "float32")
            top = T.alloc_fragment([block_H], "float32")
            top_before = T.alloc_fragment([block_H], "float32")
            total = T.alloc_fragment([block_H], "float32")
            total_here = T.alloc_fragment([block_H], "float32")
            shrink = T.alloc_fragment([block_H], "float32")

            T.copy(Q[s, first:last, 0:dim], q)
            T.copy(Q[s, first:last, dim : dim + tail], q_tail)
            T.fill(top, -(2.0**30))
            T.fill(total, 0)
            T.fill(acc, 0)
            for k in T.Pipelined(T.ceildiv(chosen, block_K), num_stages=stages):
                for j in T.Parallel(block_K):
                    used[j] = Rows[s, k * block_K + j] >= 0
                for j, d in T.Parallel(block_K, dim):
                    kv[j, d] = KV[Rows[s, k * block_K + j], d]
                for j, d in T.Parallel(block_K, tail):
                    kv_tail[j, d] = KV[Rows[s, k * block_K + j], dim + d]
                for i, j in T.Parallel(block_H, block_K):
                    scores[i, j] = T.if_then_else(used[j], 0, -T.infinity("float32"))
                T.gemm(q, kv, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(q_tail, kv_tail, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, top_before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_H, block_K):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, total_here, dim=1)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * shrink[i] + total_here[i]
                for i, d in T.Parallel(block_H, dim):
                    acc[i, d] = acc[i, d] * shrink[i]
                T.copy(scores, weights)
                T.gemm(weights, kv, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, d in T.Parallel(block_H, dim):
                acc[i, d] /= total[i]
            for i in T.Parallel(block_H):
                total[i] = T.log2(total[i]) + top[i] * scale
            T.copy(acc, O[s, first:last, :])
            T.copy(total, LSE[s, first:last])

    return main


def check_sparse_mla(on, queries, keys, heads, dim, tail, chosen, block_H=64, block_K=64, stages=2, threads=256):
    q = on.normal(queries, heads, dim + tail, dtype="bfloat16")
    kv = on.normal(keys, dim + tail, dtype="bfloat16", seed=1)
    order = torch.Generator().manual_seed(2)
    rows = torch.stack([torch.randperm(keys, generator=order)[:chosen] for _ in range(queries)]).to(torch.int32)
    rows[:, chosen - 3 :] = -1
    rows[::2, 1] = -1
    rows = rows.to(on.device)
    func = sparse_mla(queries, keys, heads, dim, tail, chosen, block_H, block_K, stages, threads)
    out, lse = on.compile(func, out_idx=[3, 4])(q, kv, rows)
    taken = kv.float()[rows.clamp(min=0).long()]
    scores = torch.einsum("shd,skd->shk", q.float(), taken) / math.sqrt(dim + tail)
    scores = scores.masked_fill((rows < 0)[:, None, :], -math.inf)
    close(out, torch.einsum("shk,skd->shd", scores.softmax(-1), taken[..., :dim]), 1e-2)
    close(lse, torch.logsumexp(scores, -1) * LOG2E, 1e-3)


# -- attention, backward -----------------------------------------------------------------------------------------------
def dq_layout(shape):
    """Eight queries by two columns lie together in the gradient of the queries."""
    return T.Layout(shape, lambda b, h, s, d: [b, h, s // 8, d // 2, s % 8, d % 2])


def attention_delta(batch, heads, length, dim, block, dtype):
    """The sum of each output row times its gradient."""

    @T.prim_func
    def delta(
        O: T.Tensor([batch, heads, length, dim], dtype),
        dO: T.Tensor([batch, heads, length, dim], dtype),
        Delta: T.Tensor([batch, heads, length], "float32"),
    ):
        with T.Kernel(T.ceildiv(length, block), heads, batch) as (bx, by, bz):
            o, do = T.alloc_fragment([block, dim], dtype), T.alloc_fragment([block, dim], dtype)
            product, row = T.alloc_fragment([block, dim], "float32"), T.alloc_fragment([block], "float32")
            T.copy(O[bz, by, bx * block : (bx + 1) * block, :], o)
            T.copy(dO[bz, by, bx * block : (bx + 1) * block, :], do)
            for i, j in T.Parallel(block, dim):
                product[i, j] = T.cast(o[i, j], "float32") * do[i, j]
            T.reduce_sum(product, row, 1)
            T.copy(row, Delta[bz, by, bx * block : (bx + 1) * block])

    return delta


def attention_backward(batch, heads, length, dim, block_M, block_N, threads, dtype, causal):
    """A block owns keys and walks over the queries; it adds to dQ, whose elements lie in another order."""
    scale = 1 / math.sqrt(dim)
    shape = [batch, heads, length, dim]

    @T.prim_func
    def backward(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        dO: T.Tensor(shape, dtype),
        LSE: T.Tensor(shape[:3], "float32"),
        Delta: T.Tensor(shape[:3], "float32"),
        dQ: T.Tensor(shape, "float32"),
        dK: T.Tensor(shape, dtype),
        dV: T.Tensor(shape, dtype),
    ):
        with T.Kernel(heads, T.ceildiv(length, block_N), batch, threads=threads) as (bx, by, bz):
            k, v = T.alloc_shared([block_N, dim], dtype), T.alloc_shared([block_N, dim], dtype)
            q, do = T.alloc_shared([block_M, dim], dtype), T.alloc_shared([block_M, dim], dtype)
            lse, delta = T.alloc_shared([block_M], "float32"), T.alloc_shared([block_M], "float32")
            ds_shared = T.alloc_shared([block_N, block_M], dtype)
            p, ds = T.alloc_fragment([block_N, block_M], "float32"), T.alloc_fragment([block_N, block_M], "float32")
            p_cast = T.alloc_fragment([block_N, block_M], dtype)
            ds_cast = T.alloc_fragment([block_N, block_M], dtype)
            dk, dv = T.alloc_fragment([block_N, dim], "float32"), T.alloc_fragment([block_N, dim], "float32")
            dq = T.alloc_fragment([block_M, dim], "float32")
            T.annotate_layout({dQ: dq_layout(shape)})

            T.copy(K[bz, bx, by * block_N : (by + 1) * block_N, :], k)
            T.copy(V[bz, bx, by * block_N : (by + 1) * block_N, :], v)
            T.clear(dk)
            T.clear(dv)
            begin = T.floordiv(by * block_N, block_M) if causal else 0
            for step in T.Pipelined(begin, T.ceildiv(length, block_M), num_stages=2):
                T.copy(Q[bz, bx, step * block_M : (step + 1) * block_M, :], q)
                T.clear(p)
                T.gemm(k, q, p, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(LSE[bz, bx, step * block_M : (step + 1) * block_M], lse)
                for i, j in T.Parallel(block_N, block_M):
                    p[i, j] = T.exp2(p[i, j] * (scale * LOG2E) - lse[j])
                if causal:
                    for i, j in T.Parallel(block_N, block_M):
                        p[i, j] = T.if_then_else(by * block_N + i <= step * block_M + j, p[i, j], 0)
                T.copy(dO[bz, bx, step * block_M : (step + 1) * block_M, :], do)
                T.clear(ds)
                T.gemm(v, do, ds, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(p, p_cast)
                T.gemm(p_cast, do, dv, policy=T.GemmWarpPolicy.FullRow)
                T.copy(Delta[bz, bx, step * block_M : (step + 1) * block_M], delta)
                for i, j in T.Parallel(block_N, block_M):
                    ds_cast[i, j] = p[i, j] * (ds[i, j] - delta[j]) * scale
                T.gemm(ds_cast, q, dk, policy=T.GemmWarpPolicy.FullRow)
                T.copy(ds_cast, ds_shared)
                T.clear(dq)
                T.gemm(ds_shared, k, dq, transpose_A=True)
                T.atomic_add(dQ[bz, bx, step * block_M : (step + 1) * block_M, :], dq)
            T.copy(dk, dK[bz, bx, by * block_N : (by + 1) * block_N, :])
            T.copy(dv, dV[bz, bx, by * block_N : (by + 1) * block_N, :])

    return backward


def dq_in_order(batch, heads, length, dim, block, dtype):
    """The gradient of the queries in the usual order and the dtype of the queries."""
    shape = [batch, heads, length, dim]

    @T.prim_func
    def ordered(Sums: T.Tensor(shape, "float32"), dQ: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(length, block), heads, batch, threads=128) as (bx, by, bz):
            T.annotate_layout({Sums: dq_layout(shape)})
            T.copy(
                Sums[bz, by, bx * block : (bx + 1) * block, :],
                dQ[bz, by, bx * block : (bx + 1) * block, :],
            )

    return ordered


def check_attention_backward(on, batch, heads, length, dim, dtype, causal, block_M=64, block_N=64, threads=128):
    q, k, v, do = (on.normal(batch, heads, length, dim, dtype=dtype, seed=n) for n in range(4))
    exact = [x.float().requires_grad_() for x in (q, k, v)]
    scores = exact[0] @ exact[1].transpose(-1, -2) / math.sqrt(dim)
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    o = scores.softmax(-1) @ exact[2]
    o.backward(do.float())
    lse = (torch.logsumexp(scores, -1) * LOG2E).detach()
    delta = on.compile(attention_delta(batch, heads, length, dim, block_M, dtype), out_idx=-1)(
        o.detach().to(q.dtype), do
    )
    close(delta, (o * do.float()).sum(-1).detach(), 2e-2)
    sums, dk, dv = on.zeros(*q.shape), torch.empty_like(k), torch.empty_like(v)
    back = on.compile(attention_backward(batch, heads, length, dim, block_M, block_N, threads, dtype, causal))
    back(q, k, v, do, lse, delta, sums, dk, dv)
    dq = on.compile(dq_in_order(batch, heads, length, dim, block_M, dtype), out_idx=-1)(sums)
    for actual, leaf in zip((dq, dk, dv), exact, strict=True):
        close(actual, leaf.grad, 2e-2)


# -- products of groups that lie anywhere ------------------------------------------------------------------------------
def grouped_products(groups, tiles_m, N, K, block_M, block_N, block_K, dtype="float16"):
    """Each group has matrices of its own, found through tables of addresses."""

    @T.prim_func
    def main(
        A_table: T.Tensor([groups], T.ptr),
        B_table: T.Tensor([groups], T.ptr),
        C_table: T.Tensor([groups], T.ptr),
        rows: T.Tensor([groups], "int32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), tiles_m, groups, threads=128) as (bx, by, g):
            a, b = T.alloc_shared([block_M, block_K], dtype), T.alloc_shared([block_K, block_N], dtype)
            c = T.alloc_fragment([block_M, block_N], "float32")
            m = T.alloc_var("int32")
            m = rows[g]
            A = T.make_tensor(A_table[g], [m, K], dtype)
            B = T.make_tensor(B_table[g], [K, N], dtype)
            C = T.make_tensor(C_table[g], [m, N], dtype)
            if by * block_M < m:
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                    T.copy(A[by * block_M, k * block_K], a)
                    T.copy(B[k * block_K, bx * block_N], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * block_M, bx * block_N])

    return main


def check_grouped_products(on, rows, N, K, block_M=64, block_N=64, block_K=32):
    a = [on.normal(m, K, dtype="float16", seed=m) for m in rows]
    b = [on.normal(K, N, dtype="float16", seed=7 * m) for m in rows]
    c = [on.zeros(m, N, dtype="float16") for m in rows]
    tables = [torch.tensor([x.data_ptr() for x in every], dtype=torch.int64, device=on.device) for every in (a, b, c)]
    tiles_m = -(-max(rows) // block_M)
    kernel = on.compile(grouped_products(len(rows), tiles_m, N, K, block_M, block_N, block_K))
    kernel(*tables, torch.tensor(rows, dtype=torch.int32, device=on.device))
    for x, y, actual in zip(a, b, c, strict=True):
        close(actual, x.float() @ y.float(), 1e-2)


# -- reducers ----------------------------------------------------------------------------------------------------------
def running_extremes(tiles, rows, columns, threads=128):
    """Largest element and sum of each row of many tiles, by reducers that open and close for each of them."""

    @T.prim_func
    def main(
        X: T.Tensor([tiles, rows, columns], "float32"),
        Top: T.Tensor([tiles, rows], "float32"),
        Total: T.Tensor([tiles, rows], "float32"),
    ):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment([rows, columns], "float32")
            top, total = T.alloc_fragment([rows], "float32"), T.alloc_fragment([rows], "float32")
            tops = T.alloc_reducer([rows], "float32", op="max")
            sums = T.alloc_reducer([rows], "float32", op="sum")
            T.fill(total, 0)
            for k in T.serial(tiles):
                T.copy(X[k, :, :], x)
                T.reducer_init(tops)
                T.reducer_init(sums, total)
                for i, j in T.Parallel(rows, columns):
                    T.reducer_update(tops[i], x[i, j])
                    T.reducer_update(sums[i], x[i, j])
                T.finalize_reducer(tops, top)
                T.finalize_reducer(sums, total)
                T.copy(top, Top[k, :])
                T.copy(total, Total[k, :])

    return main


def check_reducers(on, tiles, rows, columns):
    x = on.normal(tiles, rows, columns)
    top, total = on.compile(running_extremes(tiles, rows, columns), out_idx=[1, 2])(x)
    assert torch.equal(top, x.amax(-1))
    close(total, x.double().sum(-1).cumsum(0), 1e-5)


# -- a kernel given as CUDA --------------------------------------------------------------------------------------------
SAXPY = """
extern "C" __global__ void saxpy(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += FACTOR * x[i];
}
"""


def given_source(blocks, threads):
    """`y += 2.5 x` in CUDA, of any length."""
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor([n], "float32"), Y: T.Tensor([n], "float32")):
        T.CUDASourceCodeKernel(
            blocks,
            threads=threads,
            source_code_or_path=SAXPY,
            entry_name="saxpy",
            prelude="#define FACTOR 2.5f\n",
        )

    return main


def check_given_source(on, sizes, blocks=264, threads=256):
    kernel = on.compile(given_source(blocks, threads))
    for n in sizes:
        x, y = on.normal(n), on.normal(n, seed=1)
        expected = y + 2.5 * x
        kernel(x, y)
        close(y, expected, 1e-6)


# -- small floats ------------------------------------------------------------------------------------------------------
def to_float8(rows, columns, block, dtype, largest):
    """Rows in float8, each with the scale that makes its largest element the largest of the type."""

    @T.prim_func
    def main(
        X: T.Tensor([rows, columns], "bfloat16"),
        Y: T.Tensor([rows, columns], dtype),
        Scale: T.Tensor([rows], "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            x, y = T.alloc_fragment([block, columns], "bfloat16"), T.alloc_fragment([block, columns], dtype)
            top, scale = T.alloc_fragment([block], "float32"), T.alloc_fragment([block], "float32")
            wide = T.alloc_fragment([block, columns], "float32")
            T.copy(X[bx * block, 0], x)
            T.copy(x, wide)
            T.reduce_absmax(wide, top, dim=1)
            for i in T.Parallel(block):
                scale[i] = T.max(top[i], 1e-4) / largest
            for i, j in T.Parallel(block, columns):
                y[i, j] = T.clamp(wide[i, j] / scale[i], -largest, largest)
            T.copy(y, Y[bx * block, 0])
            T.copy(scale, Scale[bx * block])

    return main


def check_to_float8(on, rows, columns, block=8):
    x = on.normal(rows, columns, dtype="bfloat16")
    x[1] *= 300
    x[2] = 0
    for dtype, there in (("float8_e4m3fn", torch.float8_e4m3fn), ("float8_e5m2", torch.float8_e5m2)):
        largest = torch.finfo(there).max
        y, scale = on.compile(to_float8(rows, columns, block, dtype, largest), out_idx=[1, 2])(x)
        assert there == y.dtype
        wide = x.float()
        close(scale, wide.abs().amax(1).clamp(min=1e-4) / largest, 1e-6)
        expected = (wide / scale[:, None]).clamp(-largest, largest).to(there).float()
        # a quotient may be rounded in another way and then lie on the other side of a tie
        assert (y.float() != expected).float().mean() < 1e-3
        step = 2.0 ** (-3 if dtype == "float8_e4m3fn" else -2)
        torch.testing.assert_close(y.float(), expected, rtol=step, atol=torch.finfo(there).smallest_normal)


FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def from_fp4(rows, columns, group, block):
    """Packed 4-bit floats with a scale for each group of columns, as bfloat16."""

    @T.prim_func
    def main(
        X: T.Tensor([rows, columns], "float4_e2m1fn"),
        Scale: T.Tensor([rows, columns // group], "float32"),
        Y: T.Tensor([rows, columns], "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            x, y = T.alloc_shared([block, columns], "float4_e2m1fn"), T.alloc_fragment([block, columns], "bfloat16")
            T.copy(X[bx * block, 0], x)
            for i, j in T.Parallel(block, columns):
                y[i, j] = T.cast(x[i, j], "float32") * Scale[bx * block + i, j // group]
            T.copy(y, Y[bx * block, 0])

    return main


def check_from_fp4(on, rows, columns, group=32, block=4):
    numbers = torch.Generator().manual_seed(3)
    packed = torch.randint(0, 256, (rows, columns // 2), generator=numbers, dtype=torch.uint8).to(on.device)
    scale = on.normal(rows, columns // group).abs() + 0.5
    y = on.compile(from_fp4(rows, columns, group, block), out_idx=-1)(packed, scale)
    codes = torch.stack([packed & 15, packed >> 4], -1).reshape(rows, columns).long()
    table = torch.tensor([*FP4, *(-x for x in FP4)], device=on.device)
    assert torch.equal(y, (table[codes] * scale.repeat_interleave(group, 1)).to(torch.bfloat16))
