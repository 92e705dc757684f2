"""The kernels that are measured on a GPU, as a user would write them: tiles, no thread in sight.

Each function takes sizes and gives a compiled kernel for torch tensors, outputs last among the parameters.
"""

from cpu_kernels import example

import tilelang
import tilelang.language as T


def build(func, **options):
    return tilelang.compile(func, target="cuda", **options)


def vector_add(size: int, block: int = 2048, threads: int = 256):
    @T.prim_func
    def add(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32"), C: T.Tensor((size,), "float32")):
        with T.Kernel(T.ceildiv(size, block), threads=threads) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return build(add)


REGISTER_COLUMNS = 32768  # of float32: what a block holds in registers, with room for another block beside it


def row_threads(cols: int) -> int:
    """Threads for a block that holds a row: two blocks on a multiprocessor while registers allow it."""
    return 1024 if cols > REGISTER_COLUMNS else 512 if cols >= 8192 else max(128, cols // 16)


def parts(cols: int) -> tuple[int, int]:
    """How many columns of a row lie in shared memory, and how many in registers."""
    return (cols // 2, cols - cols // 2) if cols > REGISTER_COLUMNS else (0, cols)


def softmax(rows: int, cols: int, dtype: str = "float32"):
    shared, held = parts(cols)

    @T.prim_func
    def main(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((rows, cols), dtype)):
        with T.Kernel(rows, threads=row_threads(cols)) as bx:
            row = T.alloc_fragment((held,), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            if shared:
                front = T.alloc_shared((shared,), dtype)
                T.async_copy(X[bx, 0:shared], front)
            T.copy(X[bx, shared:cols], row)
            T.reduce_max(row, largest)
            if shared:
                T.reduce_max(front, largest, clear=False)
            for j in T.Parallel(held):
                row[j] = T.exp(row[j] - largest[0])
            T.reduce_sum(row, total)
            if shared:
                for j in T.Parallel(shared):
                    front[j] = T.exp(front[j] - largest[0])
                    total[0] += front[j]
                for j in T.Parallel(shared):
                    Y[bx, j] = front[j] / total[0]
            for j in T.Parallel(held):
                Y[bx, shared + j] = row[j] / total[0]

    return build(main)


def layer_norm(rows: int, cols: int, dtype: str = "float32"):
    shared, held = parts(cols)

    @T.prim_func
    def main(
        X: T.Tensor((rows, cols), dtype), W: T.Tensor((cols,), dtype), B: T.Tensor((cols,), dtype),
        Y: T.Tensor((rows, cols), dtype),
    ):
        with T.Kernel(rows, threads=row_threads(cols)) as bx:
            row = T.alloc_fragment((held,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            variance = T.alloc_fragment((1,), "float32")
            if shared:
                front = T.alloc_shared((shared,), dtype)
                T.async_copy(X[bx, 0:shared], front)
            T.copy(X[bx, shared:cols], row)
            T.reduce_sum(row, mean)
            if shared:
                T.reduce_sum(front, mean, clear=False)
            mean[0] = mean[0] / cols
            T.clear(variance)
            for j in T.Parallel(held):
                variance[0] += (row[j] - mean[0]) * (row[j] - mean[0])
            if shared:
                for j in T.Parallel(shared):
                    variance[0] += (front[j] - mean[0]) * (front[j] - mean[0])
            variance[0] = T.rsqrt(variance[0] / cols + 1e-5)
            for j in T.Parallel(held):
                Y[bx, shared + j] = (row[j] - mean[0]) * variance[0] * W[shared + j] + B[shared + j]
            if shared:
                for j in T.Parallel(shared):
                    Y[bx, j] = (front[j] - mean[0]) * variance[0] * W[j] + B[j]

    return build(main)


def rms_norm(rows: int, cols: int, dtype: str = "float32"):
    shared, held = parts(cols)

    @T.prim_func
    def main(X: T.Tensor((rows, cols), dtype), W: T.Tensor((cols,), dtype), Y: T.Tensor((rows, cols), dtype)):
        with T.Kernel(rows, threads=row_threads(cols)) as bx:
            row = T.alloc_fragment((held,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            if shared:
                front = T.alloc_shared((shared,), dtype)
                T.async_copy(X[bx, 0:shared], front)
            T.copy(X[bx, shared:cols], row)
            for j in T.Parallel(held):
                total[0] += row[j] * row[j]
            if shared:
                for j in T.Parallel(shared):
                    total[0] += front[j] * front[j]
            total[0] = T.rsqrt(total[0] / cols + 1e-6)
            if shared:
                for j in T.Parallel(shared):
                    Y[bx, j] = front[j] * total[0] * W[j]
            for j in T.Parallel(held):
                Y[bx, shared + j] = row[j] * total[0] * W[shared + j]

    return build(main)


def gemv(rows: int, cols: int, dtype: str = "float16", block_rows: int = 4, block_cols: int = 2048):
    @T.prim_func
    def main(A: T.Tensor((rows, cols), dtype), X: T.Tensor((cols,), dtype), Y: T.Tensor((rows,), dtype)):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=256) as bx:
            total = T.alloc_fragment((block_rows,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(cols, block_cols)):
                for i, j in T.Parallel(block_rows, block_cols):
                    total[i] += T.float32(A[bx * block_rows + i, k * block_cols + j]) * T.float32(X[k * block_cols + j])
            T.copy(total, Y[bx * block_rows])

    return build(main)


def transpose(rows: int, cols: int, dtype: str = "float32", tile: int = 64):
    @T.prim_func
    def main(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((cols, rows), dtype)):
        with T.Kernel(T.ceildiv(cols, tile), T.ceildiv(rows, tile), threads=256) as (bx, by):
            here = T.alloc_shared((tile, tile), dtype)
            turned = T.alloc_fragment((tile, tile), dtype)
            T.copy(X[by * tile, bx * tile], here)
            T.transpose(here, turned)
            T.copy(turned, Y[bx * tile, by * tile])

    return build(main)


def gemm_program(M, N, K, block_M=128, block_N=128, block_K=32, num_stages=3, threads=128, dtype="float16",
                 out_dtype=None, accum_dtype="float32", transpose_A=False, transpose_B=False, pitch=None, panel=None):
    """The plain tiled product; `pitch`: elements from one row of a matrix to the next, where that is not its width."""

    def in_order(rows, columns, transposed):
        return (columns, rows) if transposed else (rows, columns)

    def matrix(shape, dtype):
        return T.Tensor(shape, dtype) if pitch is None else T.StridedTensor(shape, (pitch, 1), dtype)

    @T.prim_func
    def gemm(
        A: matrix(in_order(M, K, transpose_A), dtype),
        B: matrix(in_order(K, N, transpose_B), dtype),
        C: matrix((M, N), out_dtype or dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(in_order(block_M, block_K, transpose_A), dtype)
            B_shared = T.alloc_shared(in_order(block_K, block_N, transpose_B), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            if panel:
                T.use_swizzle(panel_size=panel)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[in_order(by * block_M, k * block_K, transpose_A)], A_shared)
                T.copy(B[in_order(k * block_K, bx * block_N, transpose_B)], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=transpose_A, transpose_B=transpose_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


MMA = {"tl.disable_wgmma": True, "tl.disable_warp_specialized": True}
"""Keeps to the instructions of warps and to copies by threads, which GPUs before Hopper have as well."""


def gemm(M, N, K, pass_configs=None, **tiles):
    return build(gemm_program(M, N, K, **tiles), pass_configs=pass_configs)


def dynamic_gemm(pass_configs=None, **tiles):
    return build(gemm_program(T.dynamic("M"), T.dynamic("N"), T.dynamic("K"), **tiles), pass_configs=pass_configs)


def attention_program(batch, heads, length, dim, block_M=128, block_N=128, num_stages=2, threads=256, *,
                      causal=False, dtype="float16"):
    """FlashAttention with the scores scaled inside the exponential, in base 2; keys beyond the last are masked."""
    shape = (batch, heads, length, dim)
    scale = (1.0 / dim) ** 0.5 * 1.44269504

    @T.prim_func
    def attention(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype),
                  O: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, dim), "float32")
            largest = T.alloc_fragment((block_M,), "float32")
            previous = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M, 0], Q_shared)
            T.clear(acc)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            last = T.min(T.ceildiv(length, block_N), T.ceildiv((bx + 1) * block_M, block_N))
            for k in T.Pipelined(last if causal else T.ceildiv(length, block_N), num_stages=num_stages):
                T.copy(K[bz, by, k * block_N, 0], K_shared)
                T.copy(V[bz, by, k * block_N, 0], V_shared)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        S[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0.0, -T.infinity("float32"))
                elif length % block_N:
                    for i, j in T.Parallel(block_M, block_N):
                        S[i, j] = T.if_then_else(k * block_N + j < length, 0.0, -T.infinity("float32"))
                else:
                    T.clear(S)
                T.gemm(Q_shared, K_shared, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(largest, previous)
                T.reduce_max(S, largest, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2(previous[i] * scale - largest[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2(S[i, j] * scale - largest[i] * scale)
                T.reduce_sum(S, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * rescale[i] + row_sum[i]
                T.copy(S, P)
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] *= rescale[i]
                T.gemm(P, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= total[i]
            T.copy(acc, O[bz, by, bx * block_M, 0])

    return attention


def attention_online_program(batch, heads, length, dim, block_M=192, block_N=80, num_stages=2, threads=384, *,
                             causal=False, dtype="float16"):
    """FlashAttention by `T.online_softmax`; keys beyond the last are masked, so that any tiles do."""
    shape = (batch, heads, length, dim)

    @T.prim_func
    def attention(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype),
                  O: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M, 0], Q_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            tiles = T.ceildiv(length, block_N)
            last = T.min(tiles, T.ceildiv((bx + 1) * block_M, block_N)) if causal else tiles
            for k in T.Pipelined(last, num_stages=num_stages):
                T.copy(K[bz, by, k * block_N, 0], K_shared)
                T.copy(V[bz, by, k * block_N, 0], V_shared)
                T.clear(S)
                T.gemm(Q_shared, K_shared, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                if causal:
                    if (k + 1) * block_N > bx * block_M:
                        for i, j in T.Parallel(block_M, block_N):
                            S[i, j] = T.if_then_else(
                                bx * block_M + i >= k * block_N + j, S[i, j], -T.infinity("float32")
                            )
                elif length % block_N:
                    if k == last - 1:
                        for i, j in T.Parallel(block_M, block_N):
                            S[i, j] = T.if_then_else(k * block_N + j < length, S[i, j], -T.infinity("float32"))
                T.online_softmax(S, acc, row_max, row_sum, scale=dim**-0.5, probabilities=P)
                T.gemm(P, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= row_sum[i]
            T.copy(acc, O[bz, by, bx * block_M, 0])

    return attention


def attention(batch, heads, length, dim, pass_configs=None, **tiles):
    options = {"tl.enable_fast_math": True, **(pass_configs or {})}
    return build(attention_program(batch, heads, length, dim, **tiles), pass_configs=options)


def tiny_add(count: int = 3):
    """A launch with `count` tensors that does next to nothing, to measure the host's share."""
    if count == 3:
        return build(example("vector_add.py").add.get_tir(16, block=16))
    shape = T.Tensor((16,), "float32")

    @T.prim_func
    def many(
        a: shape, b: shape, c: shape, d: shape, e: shape, f: shape, g: shape, h: shape, i: shape, j: shape, k: shape,
        l: shape, m: shape, n: shape, o: shape, p: shape, q: shape, r: shape, s: shape,
    ):
        with T.Kernel(1, threads=32):
            for x in T.Parallel(16):
                s[x] = a[x] + b[x] + c[x] + d[x] + e[x] + f[x] + g[x] + h[x] + i[x] + j[x] + k[x] + l[x] + m[x] \
                    + n[x] + o[x] + p[x] + q[x] + r[x]

    return build(many)
