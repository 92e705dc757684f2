"""Gemms in whole kernels: every combination of scopes and transpositions of the operands gives the same result."""

import numpy as np
import pytest
from harness import assert_same, run_reference_on_copies, simulate_on_copies

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError

POLICY = T.GemmWarpPolicy


def check(func, *arguments, arch="sm_80"):
    expected = run_reference_on_copies(func, arguments)
    actual = simulate_on_copies(func, arguments, arch)
    assert_same(expected[-1], actual[-1], rtol=1e-3, atol=1e-3)


def draw(shape, dtype):
    return np.random.randint(-3, 4, shape).astype(T.dtype(dtype).numpy)


def product(m, n, k, dtypes, scopes, *, threads=64, out=None, **options):
    """One product with its operands in the given scopes: "s"hared or "f"ragment."""
    alloc = {"s": T.alloc_shared, "f": T.alloc_fragment}

    @T.prim_func
    def main(A: T.Tensor((m, k), dtypes[0]), B: T.Tensor((k, n), dtypes[1]), C: T.Tensor((m, n), out or dtypes[2])):
        with T.Kernel(1, threads=threads):
            a = alloc[scopes[0]]((m, k), dtypes[0])
            b = alloc[scopes[1]]((k, n), dtypes[1])
            c = alloc[scopes[2]]((m, n), dtypes[2])
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.gemm(a, b, c, **options)
            T.copy(c, C)

    return main, draw((m, k), dtypes[0]), draw((k, n), dtypes[1]), draw((m, n), out or dtypes[2])


@pytest.mark.parametrize("scopes", ["sss", "ssf", "fsf", "sff", "fff", "ffs"])
@pytest.mark.parametrize("dtypes", [("float16", "float16", "float32"), ("float32", "float32", "float32")])
def test_every_placement(scopes, dtypes):
    check(*product(32, 24, 16, dtypes, scopes))


@pytest.mark.parametrize("scopes", ["ssf", "fsf", "sff"])
@pytest.mark.parametrize("dtypes", [("float32", "float16", "float32"), ("bfloat16", "float32", "float32")])
def test_a_wide_operand_is_rounded(scopes, dtypes):
    check(*product(32, 24, 16, dtypes, scopes))


@pytest.mark.parametrize("m", [1, 3, 17])
@pytest.mark.parametrize("n", [1, 9])
def test_few_rows_and_columns(m, n):
    check(*product(m, n, 16, ("float16", "float16", "float32"), "fsf"))


@pytest.mark.parametrize("threads", [1, 20, 128])
def test_any_number_of_threads(threads):
    check(*product(8, 16, 8, ("float32", "float32", "float32"), "ssf", threads=threads))


def test_a_result_that_leaves_through_shared_memory():
    check(*product(64, 64, 16, ("float16", "float16", "float32"), "ssf", threads=128, out="float16"))


def chain(m, policy, threads):
    """The two products of attention, the second of the first's result."""

    @T.prim_func
    def main(
        Q: T.Tensor((m, 32), "float16"),
        K: T.Tensor((32, 32), "float16"),
        V: T.Tensor((32, 24), "float16"),
        O: T.Tensor((m, 24), "float16"),
    ):
        with T.Kernel(1, threads=threads):
            q = T.alloc_shared((m, 32), "float16")
            k = T.alloc_shared((32, 32), "float16")
            v = T.alloc_shared((32, 24), "float16")
            s = T.alloc_fragment((m, 32), "float32")
            p = T.alloc_fragment((m, 32), "float16")
            o = T.alloc_fragment((m, 24), "float32")
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(V, v)
            T.gemm(q, k, s, transpose_B=True, policy=policy, clear_accum=True)
            for i, j in T.Parallel(m, 32):
                s[i, j] = s[i, j] * 0.125
            T.copy(s, p)
            T.gemm(p, v, o, policy=policy, clear_accum=True)
            T.copy(o, O)

    return (
        main,
        draw((m, 32), "float16"),
        draw((32, 32), "float16"),
        draw((32, 24), "float16"),
        draw((m, 24), "float16"),
    )


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("policy", [POLICY.Square, POLICY.FullRow, POLICY.FullCol])
@pytest.mark.parametrize("m", [64, 40, 1])
def test_a_product_of_a_product(m, policy):
    check(*chain(m, policy, 128))


def test_parts_of_fragments():
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), C: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((32, 64), "float16")
            s = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((32, 64), "float32")
            T.copy(A, a)
            T.copy(A, s)
            T.gemm(a[:, 16:48], s[:, 0:32], c[:, 0:32], clear_accum=True)
            T.gemm(s, s, c[:, 32:64], transpose_B=True, clear_accum=True)
            T.copy(c, C)

    check(main, draw((32, 64), "float16"), draw((32, 64), "float32"))


@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
def test_a_block_without_threads_multiplies_local_arrays(transposed):
    ta, tb = transposed

    @T.prim_func
    def main(A: T.Tensor((64, 48), "float32"), B: T.Tensor((48, 32), "float32"), C: T.Tensor((64, 32), "float32")):
        with T.Kernel(2, 2) as (bx, by):
            a = T.alloc_local((24, 32) if ta else (32, 24), "float32")
            b = T.alloc_local((16, 24) if tb else (24, 16), "float32")
            c = T.alloc_local((32, 16), "float32")
            T.clear(c)
            for k in T.serial(2):
                if ta:
                    T.transpose(A[by * 32 : by * 32 + 32, k * 24 : k * 24 + 24], a)
                else:
                    T.copy(A[by * 32, k * 24], a)
                if tb:
                    T.transpose(B[k * 24 : k * 24 + 24, bx * 16 : bx * 16 + 16], b)
                else:
                    T.copy(B[k * 24, bx * 16], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
            T.copy(c, C[by * 32, bx * 16])

    a, b = draw((64, 48), "float32"), draw((48, 32), "float32")
    for backend in ("reference", "cc"):
        c = np.zeros((64, 32), np.float32)
        tilelang.compile(main, target="cpu", execution_backend=backend)(a, b, c)
        np.testing.assert_array_equal(a @ b, c)
    with pytest.raises(ProgramError, match="T.gemm: A 'a' is in scope 'local', but a shared or fragment tile is needed"):
        tilelang.compile(main, target={"kind": "cuda", "arch": "sm_90a"})
