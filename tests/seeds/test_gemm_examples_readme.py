"""The fragments of the second founding document, completed in the obvious way.

Their lines stand as written; parameters, closures and the write-back are added around them.
"""

import numpy as np
import pytest
from harness import BACKENDS, way

import tilelang
import tilelang.language as T


def integers(*shape: int, dtype: str = "float16") -> np.ndarray:
    """Small integers, whose sums are exact in every float dtype."""
    return np.random.randint(-3, 4, shape).astype(dtype)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tiling_strategy_as_plain_loops(backend: str) -> None:
    M, N, K = 8, 12, 16
    BLOCK_M, BLOCK_N, BLOCK_K = 4, 4, 8

    @T.prim_func
    def gemm(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.block("root"):
            for bm in range(M // BLOCK_M):
                for bn in range(N // BLOCK_N):
                    C_tile = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
                    T.clear(C_tile)
                    for bk in range(K // BLOCK_K):
                        A_tile = T.alloc_shared((BLOCK_M, BLOCK_K), "float32")
                        B_tile = T.alloc_shared((BLOCK_K, BLOCK_N), "float32")
                        T.copy(A[bm * BLOCK_M, bk * BLOCK_K], A_tile)
                        T.copy(B[bk * BLOCK_K, bn * BLOCK_N], B_tile)
                        T.gemm(A_tile, B_tile, C_tile)
                    T.copy(C_tile, C[bm * BLOCK_M, bn * BLOCK_N])

    a, b = integers(M, K, dtype="float32"), integers(K, N, dtype="float32")
    kernel = tilelang.compile(gemm, out_idx=[2], **way(backend))
    np.testing.assert_array_equal(kernel(a, b), product(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
def test_simple_tiled_gemm(backend: str) -> None:
    K = 32

    @T.prim_func
    def gemm_tiled(
        A: T.Tensor((128, K), "float16"), B: T.Tensor((K, 128), "float16"), C: T.Tensor((128, 128), "float32")
    ):
        BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 32

        with T.block("root"):
            # Allocate shared memory
            A_shared = T.alloc_shared([BLOCK_M, BLOCK_K], "float16")
            B_shared = T.alloc_shared([BLOCK_K, BLOCK_N], "float16")

            # Accumulator fragments
            C_frag = T.alloc_fragment([BLOCK_M, BLOCK_N], "float32")
            T.fill(C_frag, 0.0)

            # Tile loop
            for k in T.serial(K // BLOCK_K):
                # Load tiles
                T.copy(A[...], A_shared)
                T.copy(B[...], B_shared)

                # Compute
                T.gemm(A_shared, B_shared, C_frag)

            # Write back
            T.copy(C_frag, C[...])

    a, b = integers(128, K), integers(K, 128)
    kernel = tilelang.compile(gemm_tiled, out_idx=[2], **way(backend))
    np.testing.assert_array_equal(kernel(a, b), product(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
def test_manual_double_buffering(backend: str) -> None:
    BLOCK_M, BLOCK_N, BLOCK_K, num_tiles = 32, 64, 16, 5

    @T.prim_func
    def gemm(
        A: T.Tensor((BLOCK_M, BLOCK_K * num_tiles), "float16"),
        B: T.Tensor((BLOCK_K * num_tiles, BLOCK_N), "float16"),
        C: T.Tensor((BLOCK_M, BLOCK_N), "float32"),
    ):
        with T.block("root"):
            # Use two buffers
            A_shared = T.alloc_shared([2, BLOCK_M, BLOCK_K], "float16")
            B_shared = T.alloc_shared([2, BLOCK_K, BLOCK_N], "float16")
            C_frag = T.alloc_fragment([BLOCK_M, BLOCK_N], "float32")
            T.fill(C_frag, 0.0)

            # Prologue: load first tile
            T.copy(A[..., 0:BLOCK_K], A_shared[0])
            T.copy(B[0:BLOCK_K, ...], B_shared[0])

            for k in range(num_tiles):
                curr = k % 2
                next_buf = (k + 1) % 2

                # Prefetch next (async)
                if k + 1 < num_tiles:
                    T.copy(A[..., (k+1)*BLOCK_K:(k+2)*BLOCK_K], A_shared[next_buf])
                    T.copy(B[(k+1)*BLOCK_K:(k+2)*BLOCK_K, ...], B_shared[next_buf])

                # Compute current
                T.gemm(A_shared[curr], B_shared[curr], C_frag)

            T.copy(C_frag, C[...])

    a, b = integers(BLOCK_M, BLOCK_K * num_tiles), integers(BLOCK_K * num_tiles, BLOCK_N)
    kernel = tilelang.compile(gemm, out_idx=[2], **way(backend))
    np.testing.assert_array_equal(kernel(a, b), product(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_tiles", [1, 2, 5])
def test_automatic_pipelining(backend: str, num_tiles: int) -> None:
    BLOCK_M, BLOCK_N, BLOCK_K = 32, 64, 16

    @T.prim_func
    def gemm(
        A: T.Tensor((BLOCK_M, BLOCK_K * num_tiles), "float16"),
        B: T.Tensor((BLOCK_K * num_tiles, BLOCK_N), "float16"),
        C: T.Tensor((BLOCK_M, BLOCK_N), "float32"),
    ):
        with T.block("root"):
            A_shared = T.alloc_shared([BLOCK_M, BLOCK_K], "float16")
            B_shared = T.alloc_shared([BLOCK_K, BLOCK_N], "float16")
            C_frag = T.alloc_fragment([BLOCK_M, BLOCK_N], "float32")
            T.fill(C_frag, 0.0)

            # TileLang handles everything!
            with T.pipeline(num_stages=2):
                for k in range(num_tiles):
                    T.copy(A[..., k*BLOCK_K:(k+1)*BLOCK_K], A_shared)
                    T.copy(B[k*BLOCK_K:(k+1)*BLOCK_K, ...], B_shared)
                    T.gemm(A_shared, B_shared, C_frag)

            T.copy(C_frag, C[...])

    a, b = integers(BLOCK_M, BLOCK_K * num_tiles), integers(BLOCK_K * num_tiles, BLOCK_N)
    kernel = tilelang.compile(gemm, out_idx=[2], **way(backend))
    np.testing.assert_array_equal(kernel(a, b), product(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
def test_manual_loops_and_tensor_cores_agree(backend: str) -> None:
    BLOCK_M, BLOCK_N, BLOCK_K = 16, 8, 4

    @T.prim_func
    def by_loops(
        A: T.Tensor((BLOCK_M, BLOCK_K), "float32"),
        B: T.Tensor((BLOCK_K, BLOCK_N), "float32"),
        C: T.Tensor((BLOCK_M, BLOCK_N), "float32"),
    ):
        with T.block("root"):
            # Instead of manual loops
            for k in range(BLOCK_K):
                for i in range(BLOCK_M):
                    for j in range(BLOCK_N):
                        C[i,j] += A[i,k] * B[k,j]

    @T.prim_func
    def by_tensor_cores(
        A: T.Tensor((BLOCK_M, BLOCK_K), "float32"),
        B: T.Tensor((BLOCK_K, BLOCK_N), "float32"),
        C: T.Tensor((BLOCK_M, BLOCK_N), "float32"),
    ):
        with T.block("root"):
            A_frag = T.alloc_fragment((BLOCK_M, BLOCK_K), "float32")
            B_frag = T.alloc_fragment((BLOCK_K, BLOCK_N), "float32")
            C_frag = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            T.copy(A, A_frag)
            T.copy(B, B_frag)
            T.copy(C, C_frag)
            # Use Tensor Cores
            T.gemm(A_frag, B_frag, C_frag)  # 10-16x faster!
            T.copy(C_frag, C)

    a, b = integers(BLOCK_M, BLOCK_K, dtype="float32"), integers(BLOCK_K, BLOCK_N, dtype="float32")
    for func in (by_loops, by_tensor_cores):
        c = np.ones((BLOCK_M, BLOCK_N), "float32")
        tilelang.compile(func, **way(backend))(a, b, c)
        np.testing.assert_array_equal(c, 1 + product(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
def test_padded_shared_tile(backend: str) -> None:
    @T.prim_func
    def gemm(
        A: T.Tensor((128, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((128, 64), "float32")
    ):
        with T.block("root"):
            # Good: padding avoids conflicts
            A_shared = T.alloc_shared([128, 33], "float16")  # +1 padding
            B_shared = T.alloc_shared([32, 64], "float16")
            C_frag = T.alloc_fragment([128, 64], "float32")
            T.clear(C_frag)
            T.copy(A, A_shared[:, 0:32])
            T.copy(B, B_shared)
            T.gemm(A_shared[:, 0:32], B_shared, C_frag)
            T.copy(C_frag, C)

    a, b = integers(128, 32), integers(32, 64)
    kernel = tilelang.compile(gemm, out_idx=[2], **way(backend))
    np.testing.assert_array_equal(kernel(a, b), product(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
def test_vectorized_memory_access(backend: str) -> None:
    @T.prim_func
    def shift(A: T.Tensor((200,), "float16"), B: T.Tensor((128,), "float16")):
        with T.Kernel(1, threads=32) as _:
            A_shared = T.alloc_shared((128,), "float16")
            offset = 72
            for tx in T.Parallel(32):
                # Load multiple elements per thread
                for i in T.vectorized(4):  # Load 4 elements at once
                    A_shared[tx*4 + i] = A[offset + tx*4 + i]
            T.copy(A_shared, B)

    a = integers(200)
    kernel = tilelang.compile(shift, out_idx=[1], **way(backend))
    np.testing.assert_array_equal(kernel(a), a[72:])


def test_float16_needs_its_own_tolerance() -> None:
    torch = pytest.importorskip("torch")
    M = N = K = 128

    @T.prim_func
    def gemm(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.block("root"):
            C_frag = T.alloc_fragment((M, N), "float32")
            A_shared = T.alloc_shared((M, K), "float16")
            B_shared = T.alloc_shared((K, N), "float16")
            T.clear(C_frag)
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.gemm(A_shared, B_shared, C_frag)
            T.copy(C_frag, C)

    a, b = torch.randn(M, K).half(), torch.randn(K, N).half()
    result, expected = tilelang.compile(gemm, out_idx=[2])(a, b), (a.float() @ b.float()).half()
    assert torch.allclose(result, expected, rtol=1e-2, atol=1e-2)
