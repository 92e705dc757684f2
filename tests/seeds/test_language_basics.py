"""The programs of the third founding document; `...` stands in kernel bodies as it does there."""

import numpy as np
import pytest
from harness import BACKENDS, way

import tilelang
import tilelang.language as T
from tilelang import jit
from tilelang.language import deprecation


def dtypes() -> list[object]:
    """The three spellings of a dtype that the document names, the last one where torch is installed."""
    try:
        import torch
    except ImportError:
        return ["float32", T.float32, np.float32]
    return ["float32", T.float32, np.float32, torch.float32]


@pytest.mark.parametrize("dtype", dtypes(), ids=str)
def test_a_kernel_is_defined_with_any_spelling_of_a_dtype(dtype: object) -> None:
    N = 16

    @T.prim_func
    def add_kernel(
        A: T.Tensor((N,), dtype),    # dtype could be 'float32' | T.float32 | torch.float32
        B: T.Tensor((N,), dtype),
        C: T.Tensor((N,), dtype),
    ):
        ...  # kernel body

    assert ["A", "B", "C"] == [param.name for param in add_kernel.params]
    assert ["float32"] * 3 == [str(param.buffer.dtype) for param in add_kernel.params]


def test_a_named_symbolic_dimension() -> None:
    # Named symbolic dimension (optional)
    K = T.dyn['K']
    @T.prim_func
    def uses_dyn(A: T.Tensor((K,), 'float32')):
        ...

    assert ["K"] == [symbol.name for symbol in uses_dyn.symbols]


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_ways_to_a_dynamic_dimension(backend: str) -> None:
    # 1) Annotation-only symbol; read the bound size via shape
    K = T.dyn['K']  # dtype defaults to int32
    @T.prim_func
    def foo(A: T.Tensor((K,), 'float32')):
        N = A.shape[0]
        for i in T.serial(N):
            ...

    # 2) Explicit Var symbol usable in the body
    K = T.dynamic('K', 'int32')   # or T.dynamic('K') defaults to int32
    @T.prim_func
    def bar(A: T.Tensor((K,), 'float32')):
        for i in T.serial(K):
            ...

    a = np.arange(5, dtype=np.float32)
    for func in (foo, bar):
        tilelang.compile(func, **way(backend))(a)
        np.testing.assert_array_equal(a, np.arange(5))


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_ways_to_a_dynamic_dimension_with_a_body(backend: str) -> None:
    K = T.dyn['K']

    @T.prim_func
    def foo(A: T.Tensor((K,), 'float32')):
        with T.block("root"):
            N = A.shape[0]
            for i in T.serial(N):
                A[i] = A[i] + 1.0

    K = T.dynamic('K')

    @T.prim_func
    def bar(A: T.Tensor((K,), 'float32')):
        with T.block("root"):
            for i in T.serial(K):
                A[i] = A[i] + 1.0

    for func in (foo, bar):
        kernel = tilelang.compile(func, **way(backend))
        for size in (1, 5, 8):
            a = np.arange(size, dtype=np.float32)
            kernel(a)
            np.testing.assert_array_equal(a, np.arange(size) + 1)


def test_symbolic_is_a_deprecated_alias_of_dynamic() -> None:
    deprecation._TOLD.clear()
    with pytest.warns(DeprecationWarning, match="T.dynamic"):
        size = T.symbolic("K", "int32")
    assert "K" == size.name


@pytest.mark.parametrize("backend", BACKENDS)
def test_launching_a_grid(backend: str) -> None:
    grid_x, grid_y = 3, 2

    @T.prim_func
    def where(C: T.Tensor((grid_y, grid_x), "int32")):
        with T.Kernel(grid_x, grid_y, threads=128) as (bx, by):
            C[by, bx] = by * 10 + bx  # bx/by are blockIdx.x/y

    c = tilelang.compile(where, out_idx=[0], **way(backend))()
    np.testing.assert_array_equal(c, [[0, 1, 2], [10, 11, 12]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops(backend: str) -> None:
    M, N, K, BK = 4, 6, 10, 4

    @T.prim_func
    def loops(A: T.Tensor((M, N), "int32"), B: T.Tensor((M, N), "int32"), C: T.Tensor((M, N), "int32"),
              D: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=128) as _:
            count = T.alloc_local((4,), "int32")
            T.clear(count)

            for i in T.serial(N):
                count[0] += i
            for i in T.serial(1, N, 2):
                count[1] += i
            for i in T.unroll(1, 4):
                count[2] += i

            for i, j in T.Parallel(M, N):
                C[i, j] = A[i, j] + B[i, j]

            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=3):
                # overlap copy/compute across stages
                count[3] += k

            T.copy(count, D)

    a, b = np.random.randint(-9, 9, (2, M, N)).astype(np.int32)
    c, d = np.zeros_like(a), np.zeros(4, np.int32)
    tilelang.compile(loops, **way(backend))(a, b, c, d)
    np.testing.assert_array_equal(c, a + b)
    np.testing.assert_array_equal(d, [15, 9, 6, 3])


@jit  # infers target from tensors at first call
def add(N: int, block: int = 256, dtype: str = 'float32'):

    @T.prim_func
    def add_kernel(
        A: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        C: T.Tensor((N,), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
            for i in T.Parallel(block):
                gi = bx * block + i
                # Optional — LegalizeSafeMemoryAccess inserts a guard when an access may be OOB
                C[gi] = A[gi] + B[gi]

    return add_kernel


def test_vector_add_with_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    N = 1 << 20
    A = torch.randn(N, dtype=torch.float32)
    B = torch.randn(N, dtype=torch.float32)
    C = torch.empty(N, dtype=torch.float32)

    kernel = add(N)
    kernel(A, B, C)
    torch.testing.assert_close(C, A + B)


def test_vector_add_with_numpy_arrays() -> None:
    A, B = np.random.standard_normal((2, 1000)).astype(np.float32)
    C = np.empty_like(A)
    add(1000, block=128)(A, B, C)
    np.testing.assert_array_equal(C, A + B)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tiled_gemm_skeleton(backend: str) -> None:
    M, N, K, BM, BN, BK = 100, 70, 50, 32, 64, 16

    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), 'float16'),
        B: T.Tensor((K, N), 'float16'),
        C: T.Tensor((M, N), 'float16'),
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            A_s = T.alloc_shared((BM, BK), 'float16')
            B_s = T.alloc_shared((BK, BN), 'float16')
            C_f = T.alloc_fragment((BM, BN), 'float32')
            T.clear(C_f)

            for ko in T.Pipelined(T.ceildiv(K, BK), num_stages=3):
                T.copy(A[by * BM, ko * BK], A_s)
                T.copy(B[ko * BK, bx * BN], B_s)
                T.gemm(A_s, B_s, C_f)  # lowered to tensor‑core/ISA specific kernels

            T.copy(C_f, C[by * BM, bx * BN])

    a = np.random.randint(-3, 4, (M, K)).astype(np.float16)
    b = np.random.randint(-3, 4, (K, N)).astype(np.float16)
    c = tilelang.compile(gemm, out_idx=[2], **way(backend))(a, b)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


@pytest.mark.parametrize("backend", BACKENDS)
def test_printing(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def show(C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_s = T.alloc_shared((2, 2), "float16")
            C_f = T.alloc_fragment((4,), "float32")
            T.fill(A_s, 3.0)
            T.copy(C, C_f)
            T.print(C_f, msg='accumulator:')
            T.print(A_s, msg='A tile:')
            T.print(C[0], msg='C[0] = ')

    tilelang.compile(show, **way(backend))(np.array([1.5, 2.0, 3.0, 4.0], np.float32))
    text = capfd.readouterr().out
    for part in ("accumulator:", "A tile:", "C[0] = "):
        assert 1 <= text.count(part)
    assert "1.5" in text
    assert text.index("accumulator:") < text.index("A tile:") < text.index("C[0] = ")
