"""More programs in the style of published TileLang: long rows, eager style, explicit partitions, dependent launches."""

import torch

import tilelang.language as T


# -- selection ---------------------------------------------------------------------------------------------------------
def rows_topk(rows, columns, k, threads):
    """The k largest elements of each row, in order, and where they are."""

    @T.prim_func
    def main(
        X: T.Tensor([rows, columns], "float32"),
        Values: T.Tensor([rows, k], "float32"),
        Where: T.Tensor([rows, k], "int32"),
    ):
        with T.Kernel(rows, threads=threads) as bx:
            x = T.alloc_shared([1, columns], "float32")
            values, where = T.alloc_shared([1, k], "float32"), T.alloc_shared([1, k], "int32")
            T.copy(X[bx, 0], x)
            T.topk(x, k, values, where)
            T.copy(values, Values[bx, 0])
            T.copy(where, Where[bx, 0])

    return main


def rows_topk_by_rounds(rows, columns, k, threads):
    """The same by k rounds, each of which finds the largest element and takes it out."""

    @T.prim_func
    def main(
        X: T.Tensor([rows, columns], "float32"),
        Values: T.Tensor([rows, k], "float32"),
        Where: T.Tensor([rows, k], "int32"),
    ):
        with T.Kernel(rows, threads=threads) as bx:
            x = T.alloc_fragment([1, columns], "float32")
            top = T.alloc_fragment([1], "float32")
            candidates, where = T.alloc_fragment([1, columns], "int32"), T.alloc_fragment([1], "int32")
            T.copy(X[bx : bx + 1, :], x)
            for n in T.serial(k):
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(1, columns):
                    candidates[i, j] = T.if_then_else(x[i, j] == top[i], j, columns)
                T.reduce_min(candidates, where, dim=1)
                for i, j in T.Parallel(1, columns):
                    x[i, j] = T.if_then_else(j == where[i], -T.infinity("float32"), x[i, j])
                Values[bx, n] = top[0]
                Where[bx, n] = where[0]

    return main


def check_topk(on, rows, columns, k, threads=256):
    x = on.normal(rows, columns)
    values, where = x.topk(k)
    for program in (rows_topk, rows_topk_by_rounds):
        found, places = on.compile(program(rows, columns, k, threads), out_idx=[1, 2])(x)
        assert torch.equal(found, values)
        assert torch.equal(torch.gather(x, 1, places.long()), values)
        assert all(len(set(row)) == k for row in places.tolist())


def rows_sorted(rows, columns, threads):
    """Each row in descending order, and where its elements were."""

    @T.prim_func
    def main(
        X: T.Tensor([rows, columns], "float32"),
        Y: T.Tensor([rows, columns], "float32"),
        Where: T.Tensor([rows, columns], "int32"),
    ):
        with T.Kernel(rows, threads=threads) as bx:
            x, where = T.alloc_shared([1, columns], "float32"), T.alloc_shared([1, columns], "int32")
            T.copy(X[bx, 0], x)
            T.sort(x, descending=True, indices=where)
            T.copy(x, Y[bx, 0])
            T.copy(where, Where[bx, 0])

    return main


def check_sort(on, rows, columns, threads=256):
    x = (on.normal(rows, columns) * 4).round()  # many equal elements, which stay in order
    y, where = on.compile(rows_sorted(rows, columns, threads), out_idx=[1, 2])(x)
    expected = x.sort(dim=1, descending=True, stable=True)
    assert torch.equal(y, expected.values)
    assert torch.equal(where.long(), expected.indices)


# -- scans -------------------------------------------------------------------------------------------------------------
def rows_scanned(rows, columns, reverse, threads):
    """Running sums of rows, and the states s = a * s + b of a linear recurrence."""

    @T.prim_func
    def main(
        A: T.Tensor([rows, columns], "float32"),
        B: T.Tensor([rows, columns], "float32"),
        Sums: T.Tensor([rows, columns], "float32"),
        States: T.Tensor([rows, columns], "float32"),
    ):
        with T.Kernel(rows, threads=threads) as bx:
            a, b = T.alloc_shared([1, columns], "float32"), T.alloc_shared([1, columns], "float32")
            sums = T.alloc_shared([1, columns], "float32")
            T.copy(A[bx, 0], a)
            T.copy(B[bx, 0], b)
            T.cumsum(b, sums, dim=1, reverse=reverse)
            T.associative_scan(
                (a, b), None, lambda a0, b0, a1, b1: (a0 * a1, b0 * a1 + b1), dim=1, reverse=reverse
            )
            T.copy(sums, Sums[bx, 0])
            T.copy(b, States[bx, 0])

    return main


def check_scans(on, rows, columns, reverse, threads=256):
    a, b = on.normal(rows, columns).sigmoid(), on.normal(rows, columns, seed=1)
    sums, states = on.compile(rows_scanned(rows, columns, reverse, threads), out_idx=[2, 3])(a, b)
    first, second = (x.flip(1).double() if reverse else x.double() for x in (a, b))
    state, found = torch.zeros_like(second[:, 0]), []
    for n in range(columns):
        state = first[:, n] * state + second[:, n]
        found.append(state)
    expected, running = torch.stack(found, 1), second.cumsum(1)
    if reverse:
        expected, running = expected.flip(1), running.flip(1)
    torch.testing.assert_close(sums.double(), running, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(states.double(), expected, rtol=1e-4, atol=1e-4)


# -- eager style -------------------------------------------------------------------------------------------------------
def linear(X, W, bias, biased: bool = True, block: int = 64, step: int = 32):
    """`X @ W.T`, and the bias if one is used; any number of rows."""
    N, K = T.const("N, K")
    M = T.dynamic("M")
    X: T.Tensor[[M, K], T.float16]
    W: T.Tensor[[N, K], T.float16]
    bias: T.Tensor[[N], T.float32]
    Y = T.empty((M, N), T.float16)
    assert K % step == 0
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        x, w = T.alloc_shared((block, step), T.float16), T.alloc_shared((block, step), T.float16)
        y = T.alloc_fragment((block, block), T.float32)
        T.clear(y)
        for k in T.Pipelined(K // step, num_stages=2):
            T.copy(X[by * block, k * step], x)
            T.copy(W[bx * block, k * step], w)
            T.gemm(x, w, y, transpose_B=True)
        if biased:
            for i, j in T.Parallel(block, block):
                y[i, j] += bias[bx * block + j]
        T.copy(y, Y[by * block, bx * block])
    return Y


def check_eager(on, rows, N, K, block=64, step=32):
    function = on.jit(linear)
    w, bias = on.normal(N, K, dtype="float16"), on.normal(N)
    for m in rows:
        x = on.normal(m, K, dtype="float16", seed=m)
        expected = x.float() @ w.float().T
        top = expected.abs().max().item()
        plain = function(x, w, None, False, block, step)
        biased = function(bias=bias, X=x, W=w, block=block // 2, step=step)
        for y, want in ((plain, expected), (biased, expected + bias)):
            torch.testing.assert_close(y.float(), want, rtol=1e-2, atol=1e-3 * top)


def optional_mask(columns, masked):
    """Rows, with the mask if the program uses one; the tensor may be None else."""
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor([M, columns], "float32"),
        Mask: T.Tensor([M, columns], "bool"),
        Y: T.Tensor([M, columns], "float32"),
    ):
        with T.Kernel(M, threads=128) as bx:
            for j in T.Parallel(columns):
                if masked:
                    Y[bx, j] = T.if_then_else(Mask[bx, j], X[bx, j], 0)
                else:
                    Y[bx, j] = X[bx, j]

    return main


def check_optional(on, rows, columns):
    plain, masked = on.compile(optional_mask(columns, False)), on.compile(optional_mask(columns, True))
    for m in rows:
        x = on.normal(m, columns)
        y, z = torch.empty_like(x), torch.empty_like(x)
        plain(x, None, y)
        masked(x, x > 0.5, z)
        assert torch.equal(x, y)
        assert torch.equal(torch.where(x > 0.5, x, torch.zeros_like(x)), z)


def reversed_rows(threads=128):
    """Rows in reverse, by shared memory whose size is known at the launch."""
    M, n = T.dynamic("M, n")

    @T.prim_func
    def main(X: T.Tensor([M, n], "float32"), Y: T.Tensor([M, n], "float32")):
        with T.Kernel(M, threads=threads) as bx:
            row = T.alloc_shared([n], "float32")
            for i in T.Parallel(n):
                row[i] = X[bx, i]
            for i in T.Parallel(n):
                Y[bx, i] = row[n - 1 - i] + row[i]

    return main


def check_dynamic_shared(on, rows, lengths):
    kernel = on.compile(reversed_rows())
    for n in lengths:
        x = on.normal(rows, n)
        y = torch.empty_like(x)
        kernel(x, y)
        assert torch.equal(x + x.flip(1), y)


# -- roles and barriers by hand ----------------------------------------------------------------------------------------
def roles_gemm(M, N, K, block_M, block_N, block_K, stages):
    """One warp group loads and another multiplies, joined by barriers inside a pipelined loop."""

    @T.prim_func
    def main(
        A: T.Tensor([M, K], "float16"), B: T.Tensor([K, N], "float16"), C: T.Tensor([M, N], "float16")
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            a = T.alloc_shared([stages, block_M, block_K], "float16")
            b = T.alloc_shared([stages, block_K, block_N], "float16")
            c = T.alloc_fragment([block_M, block_N], "float32")
            loaded = T.alloc_barrier([128] * stages)
            consumed = T.alloc_barrier([128] * stages)
            with T.ws(0):
                T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                with T.ws(1):
                    T.barrier_wait(consumed[k % stages], ((k // stages) % 2) ^ 1)
                    T.copy(A[by * block_M, k * block_K], a[k % stages, :, :])
                    T.copy(B[k * block_K, bx * block_N], b[k % stages, :, :])
                    T.barrier_arrive(loaded[k % stages])
                with T.ws(0):
                    T.barrier_wait(loaded[k % stages], (k // stages) % 2)
                    T.gemm(a[k % stages, :, :], b[k % stages, :, :], c)
                    T.barrier_arrive(consumed[k % stages])
            with T.ws(0):
                T.copy(c, C[by * block_M, bx * block_N])

    return main


def check_roles_gemm(on, M, N, K, block_M=128, block_N=128, block_K=64, stages=2):
    a, b = on.normal(M, K, dtype="float16"), on.normal(K, N, dtype="float16", seed=1)
    c = on.compile(roles_gemm(M, N, K, block_M, block_N, block_K, stages), out_idx=-1)(a, b)
    expected = a.float() @ b.float()
    torch.testing.assert_close(c.float(), expected, rtol=1e-2, atol=1e-3 * expected.abs().max().item())


# -- kernels that start before the one before them ends ----------------------------------------------------------------
def dependent_step(length, block=1024):
    """`y = 2 x + 1`; the next kernel may start when this one says so, and waits for the one before."""

    @T.prim_func
    def main(X: T.Tensor([length], "float32"), Y: T.Tensor([length], "float32")):
        with T.Kernel(T.ceildiv(length, block), threads=256) as bx:
            T.pdl_sync()
            for i in T.Parallel(block):
                Y[bx * block + i] = X[bx * block + i] * 2 + 1
            T.pdl_trigger()

    return main


def check_dependent_launches(on, length, steps):
    kernel = on.compile(dependent_step(length))
    x = on.normal(length)
    a, b, expected = x.clone(), torch.empty_like(x), x
    for _ in range(steps):  # nothing else between the launches, so that they may overlap
        kernel(a, b)
        a, b = b, a
    for _ in range(steps):
        expected = expected * 2 + 1
    assert torch.equal(a, expected)
