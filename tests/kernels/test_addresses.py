"""Tensors at addresses and tensors with several names, on every executor."""

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import OutOfBounds, ProgramError, SimulationError
from tilelang.ir.func import PrimFunc

HOPPER = {"kind": "cuda", "arch": "sm_90a"}
WAYS = pytest.mark.parametrize("way", ["reference", "cpu", "sm_90a", "sm_80"])


def compiled(func: PrimFunc, way: str) -> Any:
    if way == "reference":
        return tilelang.compile(func, target="cpu", execution_backend="reference")
    if way == "cpu":
        return tilelang.compile(func, target="cpu")
    return tilelang.compile(func, target={"kind": "cuda", "arch": way}, execution_backend="simulator")


def addresses(arrays: list[np.ndarray]) -> np.ndarray:
    return np.array([array.ctypes.data for array in arrays], np.int64)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(7).integers(-4, 5, shape).astype(dtype)


@T.prim_func
def rows(W: T.Tensor((2, 3, 8), "float16"), table: T.Tensor([4], T.ptr), out: T.ptr, n: T.int32):
    O = T.make_tensor(out, (4, n), "float32")
    with T.Kernel(4, threads=64) as b:
        flat = T.Tensor((6, 8), "float16", W.data)
        A = T.make_tensor(table[b], (n,), "float32")
        for i in T.Parallel(n):
            O[b, i] = A[i] + flat[b, 1]
    with T.Kernel(1, threads=64):
        for i in T.Parallel(8):
            O[0, i] = O[0, i] * 2


@WAYS
def test_tables_pointers_and_other_names(way: str) -> None:
    kernel, w, n = compiled(rows, way), numbers(2, 3, 8, dtype=np.float16), 37
    arrays = [numbers(n) + i for i in range(4)]
    expected = np.stack([a + w.reshape(6, 8)[b, 1] for b, a in enumerate(arrays)])
    expected[0, :8] *= 2
    for as_number in (False, True):
        out = np.zeros((4, n), np.float32)
        kernel(w, addresses(arrays), out.ctypes.data if as_number else out, n)
        assert np.array_equal(expected, out)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_the_text_of_tensors_at_addresses_compiles(arch: str) -> None:
    source = tilelang.compile(rows, target={"kind": "cuda", "arch": arch}).get_kernel_source()
    assert "const float* const A = (const float*)(A_address);" in source
    assert "const half_t* const flat = (const half_t*)W;" in source


def grouped(K: int, N: int) -> PrimFunc:
    G = T.dynamic("G")
    Table = T.Tensor([G], T.ptr)

    @T.prim_func
    def main(As: Table, Bs: Table, Cs: Table, sizes: T.Tensor((G,), "int32")):
        with T.Kernel(N // 32, G, threads=128) as (bx, g):
            A = T.make_tensor(As[g], (sizes[g], K), "float16")
            B = T.make_tensor(Bs[g], (K, N), "float16")
            C = T.make_tensor(Cs[g], (sizes[g], N), "float32")
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            for t in T.serial(T.ceildiv(sizes[g], 64)):
                T.clear(c)
                for k in T.Pipelined(K // 32, num_stages=2):
                    T.copy(A[t * 64, k * 32], a)
                    T.copy(B[k * 32, bx * 32], b)
                    T.gemm(a, b, c)
                T.copy(c, C[t * 64, bx * 32])

    return main


@WAYS
def test_products_of_groups_through_tables(way: str) -> None:
    sizes, K, N = [70, 0, 5], 64, 64
    lefts, rights = [numbers(m, K, dtype=np.float16) for m in sizes], [numbers(K, N, dtype=np.float16)] * 3
    results = [np.full((m, N), 9, np.float32) for m in sizes]
    tables = (addresses(arrays) for arrays in (lefts, rights, results))
    compiled(grouped(K, N), way)(*tables, np.array(sizes, np.int32))
    for a, b, c in zip(lefts, rights, results, strict=True):
        assert np.array_equal(a.astype(np.float32) @ b.astype(np.float32), c)


@WAYS
def test_a_tensor_is_another_one_in_each_iteration(way: str) -> None:
    @T.prim_func
    def main(table: T.Tensor([3], T.ptr), O: T.Tensor((3, 64), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "float32")
            for g in T.serial(3):
                A = T.make_tensor(table[g], (64,), "float32", strides=(g + 1,))
                T.copy(A, s)
                T.copy(s, O[g, :])

    arrays = [numbers(64 * (g + 1)) + g for g in range(3)]
    out = np.zeros((3, 64), np.float32)
    compiled(main, way)(addresses(arrays), out)
    assert np.array_equal(np.stack([a[:: g + 1] for g, a in enumerate(arrays)]), out)


@pytest.mark.parametrize("way", ["reference", "sm_90a"])
def test_nothing_lies_at_address_zero(way: str) -> None:
    with pytest.raises(OutOfBounds, match="'A' is a tensor at address 0"):
        compiled(rows, way)(numbers(2, 3, 8, dtype=np.float16), np.zeros(4, np.int64), np.zeros(32, np.float32), 8)


@pytest.mark.parametrize("way", ["reference", "sm_90a"])
def test_races_are_found_at_addresses(way: str) -> None:
    @T.prim_func
    def main(p: T.ptr):
        A = T.make_tensor(p, (4,), "int32")
        with T.Kernel(2, threads=1) as b:
            A[0] = b

    with pytest.raises(SimulationError, match=r"A\[0\]"):
        compiled(main, way)(np.zeros(4, np.int32))


def test_a_pointer_that_is_not_aligned_has_a_program_of_its_own() -> None:
    @T.prim_func
    def main(p: T.ptr, O: T.Tensor((64,), "float16")):
        A = T.make_tensor(p, (64,), "float16")
        with T.Kernel(1, threads=8):
            T.copy(A, O)

    kernel, a = compiled(main, "sm_90a"), numbers(72, dtype=np.float16)
    for first in (1, 8, 3):  # the simulator reports a wide access that is not aligned
        out = np.zeros(64, np.float16)
        kernel(a[first:], out)
        assert np.array_equal(a[first : first + 64], out)


def test_another_name_of_a_parameter_is_read_by_the_copy_engine() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 288), "float16"), W: T.Tensor((3, 3, 32, 64), "float16"), O: T.Tensor((64, 64), "float32")):
        flat = T.Tensor((288, 64), "float16", W.data)
        with T.Kernel(1, threads=128):
            a, w = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(9, num_stages=3):
                T.copy(A[0, k * 32], a)
                T.copy(flat[k * 32, 0], w)
                T.gemm(a, w, c)
            T.copy(c, O)

    explained = tilelang.compile(main, target=HOPPER).explain()
    assert 2 == explained.count("T.copy is lowered by copy.tma\n")
    a, w, out = numbers(64, 288, dtype=np.float16), numbers(3, 3, 32, 64, dtype=np.float16), np.zeros((64, 64), np.float32)
    compiled(main, "sm_90a")(a, w, out)
    assert np.array_equal(a.astype(np.float32) @ w.reshape(288, 64).astype(np.float32), out)


@pytest.mark.parametrize("way", ["reference", "cpu", "sm_90a"])
def test_another_name_lies_within_its_tensor(way: str) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(W: T.Tensor((n, 4), "int32"), m: T.int32, O: T.Tensor((1,), "int32")):
        flat = T.Tensor((m,), "int32", W.data)
        with T.Kernel(1, threads=32):
            O[0] = flat[m - 1]

    kernel, w, out = compiled(main, way), np.arange(12, dtype=np.int32).reshape(3, 4), np.zeros(1, np.int32)
    for m in (12, 5):
        kernel(w, m, out)
        assert m - 1 == out[0]
        with pytest.raises(RuntimeError, match=r"an assumption of the kernel does not hold. Assume: m \* 4 <= n \* 4 \* 4"):
            kernel(w, 13, out)


def test_the_shape_of_another_name_is_known_before_the_launch() -> None:
    with pytest.raises(ProgramError, match=r"the shape \(rows, 2\) depends on values of the kernel"):

        @T.prim_func
        def main(W: T.Tensor((64,), "int32")):
            with T.Kernel(4):
                rows = W[0]
                T.Tensor((rows, 2), "int32", W.data)[0, 0] = 1
