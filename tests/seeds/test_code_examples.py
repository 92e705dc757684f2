"""The programs of the fourth founding document, on the device that is present."""

import numpy as np
import pytest
from harness import BACKENDS, way

import tilelang
import tilelang.language as T
from tilelang.errors import DataRace

pytestmark = pytest.mark.filterwarnings("ignore:T.Buffer is deprecated:DeprecationWarning")


def matmul_kernel(M, N, K, block_M, block_N, block_K):
    """
    Compute C = A @ B where:
    - A: (M, K) matrix
    - B: (K, N) matrix
    - C: (M, N) matrix

    Block sizes typically: 128x128x32 or 64x64x32
    """
    @T.prim_func
    def main(
        A: T.Buffer((M, K), "float16"),
        B: T.Buffer((K, N), "float16"),
        C: T.Buffer((M, N), "float16")
    ):
        # 1. Define grid and block dimensions
        # Grid covers the output matrix C in tiles
        with T.Kernel(
            T.ceildiv(N, block_N),  # Grid X dimension
            T.ceildiv(M, block_M),  # Grid Y dimension
            threads=128
        ) as (bx, by):

            # 2. Allocate shared memory (L1 cache)
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")

            # 3. Allocate accumulator in registers
            # Use float32 for accumulation to avoid overflow
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            # 4. Apply swizzle layout to eliminate bank conflicts
            # This is CRITICAL for performance
            T.annotate_layout({
                A_shared: T.make_swizzled_layout(A_shared),
                B_shared: T.make_swizzled_layout(B_shared)
            })

            # 5. Initialize accumulator to zero
            T.clear(C_local)

            # 6. Main computation loop with 3-stage pipelining
            # Overlaps memory transfer and computation
            num_k_tiles = T.ceildiv(K, block_K)
            for k in T.Pipelined(num_k_tiles, num_stages=3):
                # Load tiles from global memory to shared memory
                # Compiler will automatically use cp.async or TMA
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)

                # Compute using Tensor Cores
                # C_local += A_shared @ B_shared
                T.gemm(A_shared, B_shared, C_local, transpose_B=False)

            # 7. Write results back to global memory
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def flash_attention_v2(batch, n_heads, seq_len, head_dim, block_M, block_N):
    """
    Compute attention: O = softmax(Q @ K^T / sqrt(d)) @ V

    Uses online softmax to avoid materializing full attention matrix.
    Memory complexity: O(seq_len) instead of O(seq_len^2)
    """
    @T.prim_func
    def main(
        Q: T.Buffer((batch, n_heads, seq_len, head_dim), "float16"),
        K: T.Buffer((batch, n_heads, seq_len, head_dim), "float16"),
        V: T.Buffer((batch, n_heads, seq_len, head_dim), "float16"),
        O: T.Buffer((batch, n_heads, seq_len, head_dim), "float16")
    ):
        scale = T.float32(1.0) / T.sqrt(T.float32(head_dim))

        # Each block processes block_M query tokens
        with T.Kernel(
            T.ceildiv(seq_len, block_M),
            n_heads,
            batch,
            threads=128
        ) as (bx, by, bz):

            # Shared memory allocation
            Q_shared = T.alloc_shared((block_M, head_dim), "float16")
            K_shared = T.alloc_shared((block_N, head_dim), "float16")
            V_shared = T.alloc_shared((block_N, head_dim), "float16")

            # Register fragments
            S_local = T.alloc_fragment((block_M, block_N), "float32")  # Scores
            O_local = T.alloc_fragment((block_M, head_dim), "float32")  # Output accumulator

            # Online softmax statistics (per query token)
            m_current = T.alloc_fragment((block_M,), "float32")  # Max scores
            l_current = T.alloc_fragment((block_M,), "float32")  # Sum of exp

            # Apply swizzle layouts
            T.annotate_layout({
                Q_shared: T.make_swizzled_layout(Q_shared),
                K_shared: T.make_swizzled_layout(K_shared),
                V_shared: T.make_swizzled_layout(V_shared)
            })

            # Initialize
            T.fill(m_current, -1e9)  # Start with very negative value
            T.clear(l_current)
            T.clear(O_local)

            # Load Q tile (stays constant for this block)
            T.copy(Q[bz, by, bx * block_M, 0], Q_shared)

            # Iterate over K, V tiles
            num_kv_tiles = T.ceildiv(seq_len, block_N)
            for k in T.Pipelined(num_kv_tiles, num_stages=2):
                # Load K, V tiles
                T.copy(K[bz, by, k * block_N, 0], K_shared)
                T.copy(V[bz, by, k * block_N, 0], V_shared)

                # Compute attention scores: S = Q @ K^T
                T.clear(S_local)
                T.gemm(Q_shared, K_shared, S_local, transpose_B=True)

                # Scale scores
                for i, j in T.Parallel(block_M, block_N):
                    S_local[i, j] = S_local[i, j] * scale

                # Online softmax update
                m_prev = T.alloc_fragment((block_M,), "float32")
                T.copy(m_current, m_prev)

                # Compute new max
                T.reduce_max(S_local, m_current, dim=1)

                # Update statistics and scores
                for i in T.Parallel(block_M):
                    # Correction factor for previous values
                    correction = T.exp(m_prev[i] - m_current[i])
                    l_current[i] = l_current[i] * correction

                    # Update output with correction
                    for d in T.Parallel(head_dim):
                        O_local[i, d] = O_local[i, d] * correction

                # Exponentiate current scores
                for i, j in T.Parallel(block_M, block_N):
                    S_local[i, j] = T.exp(S_local[i, j] - m_current[i])

                # Update denominator
                for i in T.Parallel(block_M):
                    row_sum = T.float32(0.0)
                    for j in T.Parallel(block_N):
                        row_sum = row_sum + S_local[i, j]
                    l_current[i] = l_current[i] + row_sum

                # Accumulate weighted values: O += S @ V
                T.gemm(S_local, V_shared, O_local, transpose_B=False)

            # Final normalization
            for i, d in T.Parallel(block_M, head_dim):
                O_local[i, d] = O_local[i, d] / l_current[i]

            # Write output
            T.copy(O_local, O[bz, by, bx * block_M, 0])

    return main


def mla_decode_kernel(
    batch, n_heads, kv_len, head_dim, latent_dim,
    block_M, block_N
):
    """
    DeepSeek MLA decode with split-KV for better GPU utilization.

    MLA compresses KV cache: (seq_len, n_heads, head_dim) -> (seq_len, latent_dim)
    This kernel handles the expanded attention computation efficiently.
    """
    @T.prim_func
    def main(
        Q: T.Buffer((batch, n_heads, 1, head_dim), "float16"),  # Single token
        KV_compressed: T.Buffer((batch, kv_len, latent_dim), "float16"),
        KV_proj: T.Buffer((latent_dim, n_heads, head_dim), "float16"),  # Projection weights
        O: T.Buffer((batch, n_heads, 1, head_dim), "float16")
    ):
        scale = T.float32(1.0) / T.sqrt(T.float32(head_dim))

        # Split KV sequence across blocks for parallelism
        with T.Kernel(
            T.ceildiv(kv_len, block_N),  # Split along KV sequence
            n_heads,
            batch,
            threads=128
        ) as (bx, by, bz):

            # Shared memory
            Q_shared = T.alloc_shared((1, head_dim), "float16")
            KV_shared = T.alloc_shared((block_N, head_dim), "float16")
            KV_comp_shared = T.alloc_shared((block_N, latent_dim), "float16")

            # Register fragments
            S_local = T.alloc_fragment((1, block_N), "float32")  # Attention scores
            O_local = T.alloc_fragment((1, head_dim), "float32")

            # Softmax statistics for this split
            scores_max = T.alloc_fragment((1,), "float32")
            scores_sum = T.alloc_fragment((1,), "float32")

            # Apply layouts
            T.annotate_layout({
                Q_shared: T.make_swizzled_layout(Q_shared),
                KV_shared: T.make_swizzled_layout(KV_shared),
                KV_comp_shared: T.make_swizzled_layout(KV_comp_shared)
            })

            # Load Q for this head (single token for decoding)
            T.copy(Q[bz, by, 0, 0], Q_shared)

            # Load compressed KV for this split
            T.copy(KV_compressed[bz, bx * block_N, 0], KV_comp_shared)

            # Decompress KV using projection
            # K = KV_compressed @ KV_proj (for this head)
            T.clear(KV_shared)
            # This is simplified - actual implementation may use specific patterns
            for i in range(block_N):
                for d in range(head_dim):
                    for l in range(latent_dim):
                        KV_shared[i, d] += KV_comp_shared[i, l] * KV_proj[l, by, d]

            # Compute attention scores: S = Q @ K^T
            T.clear(S_local)
            # Use FullCol policy for better performance with narrow Q
            T.gemm(Q_shared, KV_shared, S_local,
                   transpose_B=True,
                   policy=T.GemmWarpPolicy.FullCol)

            # Scale and softmax
            for j in T.Parallel(block_N):
                S_local[0, j] = S_local[0, j] * scale

            # Find max for numerical stability
            T.fill(scores_max, -1e9)
            for j in T.Parallel(block_N):
                scores_max[0] = T.max(scores_max[0], S_local[0, j])

            # Exp and sum
            T.clear(scores_sum)
            for j in T.Parallel(block_N):
                S_local[0, j] = T.exp(S_local[0, j] - scores_max[0])
                scores_sum[0] = scores_sum[0] + S_local[0, j]

            # Normalize
            for j in T.Parallel(block_N):
                S_local[0, j] = S_local[0, j] / scores_sum[0]

            # Compute output: O = S @ V (V same as K in MLA)
            T.clear(O_local)
            T.gemm(S_local, KV_shared, O_local, transpose_B=False)

            # Write output (will be reduced across splits in subsequent step)
            T.copy(O_local, O[bz, by, 0, 0])

    return main


def half(*shape: int) -> np.ndarray:
    return np.random.standard_normal(shape).astype(np.float16)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def jitted(factory, out_idx: int, backend: str = "auto"):
    """The decorator of the document with the device it names replaced by the one that is present."""
    return tilelang.jit(out_idx=[out_idx], **way(backend))(factory)


@pytest.mark.usefixtures("optimized_cpp")
def test_matmul_compiles_with_the_sizes_of_the_document() -> None:
    func = jitted(matmul_kernel, 2)(
        M=1024, N=1024, K=1024,
        block_M=128, block_N=128, block_K=32
    )
    a, b = half(1024, 1024), half(1024, 1024)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(func(a, b).astype(np.float32), expected, rtol=1e-2, atol=1e-1)


def test_matmul_is_called_with_torch_tensors_and_an_output_of_the_caller() -> None:
    torch = pytest.importorskip("torch")
    func = jitted(matmul_kernel, 2)(
        M=64, N=64, K=64,
        block_M=32, block_N=32, block_K=32
    )

    # func is now a compiled kernel that can be called from PyTorch
    A = torch.randn(64, 64).to(torch.float16)
    B = torch.randn(64, 64).to(torch.float16)
    C = torch.empty(64, 64, dtype=torch.float16)
    func(A, B, C)
    torch.testing.assert_close(C, (A.float() @ B.float()).half(), rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_matmul(backend: str) -> None:
    func = jitted(matmul_kernel, 2, backend)(M=40, N=35, K=50, block_M=32, block_N=32, block_K=32)
    a, b = half(40, 50), half(50, 35)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(func(a, b).astype(np.float32), expected, rtol=1e-2, atol=1e-2)


def test_flash_attention_compiles_with_the_sizes_of_the_document() -> None:
    func = jitted(flash_attention_v2, 3)(
        batch=2, n_heads=32, seq_len=2048, head_dim=128,
        block_M=64, block_N=64
    )
    assert "" != func.get_kernel_source()


@pytest.mark.parametrize("backend", BACKENDS)
def test_flash_attention(backend: str) -> None:
    func = jitted(flash_attention_v2, 3, backend)(
        batch=2, n_heads=2, seq_len=32, head_dim=16, block_M=16, block_N=16
    )
    q, k, v = half(2, 2, 32, 16), half(2, 2, 32, 16), half(2, 2, 32, 16)
    np.testing.assert_allclose(func(q, k, v).astype(np.float32), attention(q, k, v), rtol=1e-2, atol=1e-2)


def test_mla_decode_compiles_with_the_sizes_of_the_document() -> None:
    func = jitted(mla_decode_kernel, 3)(
        batch=1, n_heads=32, kv_len=4096,
        head_dim=128, latent_dim=512,
        block_M=1, block_N=64
    )
    assert "" != func.get_kernel_source()


@pytest.mark.parametrize("backend", BACKENDS)
def test_mla_decode_of_a_single_split_is_right(backend: str) -> None:
    func = jitted(mla_decode_kernel, 3, backend)(
        batch=2, n_heads=2, kv_len=8, head_dim=4, latent_dim=6, block_M=1, block_N=8
    )
    q, kv, proj = half(2, 2, 1, 4), half(2, 8, 6), half(6, 2, 4)
    keys = np.einsum("bnl,lhd->bhnd", kv.astype(np.float32), proj.astype(np.float32))
    result = func(q, kv, proj).astype(np.float32)
    np.testing.assert_allclose(result, attention(q, keys, keys), rtol=5e-2, atol=5e-2)


def test_mla_decode_of_several_splits_is_reported_as_a_race() -> None:
    func = jitted(mla_decode_kernel, 3, "reference")(
        batch=1, n_heads=2, kv_len=32, head_dim=8, latent_dim=4, block_M=1, block_N=16
    )
    with pytest.raises(DataRace, match="O"):
        func(half(1, 2, 1, 8), half(1, 32, 4), half(4, 2, 8))


@pytest.mark.parametrize("backend", BACKENDS)
def test_elementwise_operations(backend: str) -> None:
    M, N = 5, 37

    @T.prim_func
    def relu(input: T.Tensor((M, N), "float32"), output: T.Tensor((M, N), "float32")):
        with T.block("root"):
            # ReLU activation
            for i, j in T.Parallel(M, N):
                output[i, j] = T.max(input[i, j], 0)

    @T.prim_func
    def gelu(input: T.Tensor((M, N), "float32"), output: T.Tensor((M, N), "float32")):
        with T.block("root"):
            # GELU approximation
            for i, j in T.Parallel(M, N):
                x = input[i, j]
                output[i, j] = 0.5 * x * (1.0 + T.tanh(0.797885 * (x + 0.044715 * x * x * x)))

    x = np.random.standard_normal((M, N)).astype(np.float32)
    run = {f: tilelang.compile(f, out_idx=[1], **way(backend)) for f in (relu, gelu)}
    np.testing.assert_array_equal(run[relu](x), np.maximum(x, 0))
    expected = 0.5 * x * (1.0 + np.tanh(0.797885 * (x + 0.044715 * x * x * x)))
    np.testing.assert_allclose(run[gelu](x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scope", ["global", "fragment"])
def test_layer_norm(backend: str, scope: str) -> None:
    M, N = 6, 50

    @T.prim_func
    def layer_norm(
        input: T.Tensor((M, N), "float32"),
        output: T.Tensor((M, N), "float32"),
        mean_out: T.Tensor((M,), "float32"),
        variance_out: T.Tensor((M,), "float32"),
    ):
        with T.block("root"):
            mean = mean_out if scope == "global" else T.alloc_fragment((M,), "float32")
            variance = variance_out if scope == "global" else T.alloc_fragment((M,), "float32")

            # Compute mean
            for i in T.Parallel(M):
                sum_val = T.float32(0.0)
                for j in T.Parallel(N):
                    sum_val += input[i, j]
                mean[i] = sum_val / N

            # Compute variance
            for i in T.Parallel(M):
                var_val = T.float32(0.0)
                for j in T.Parallel(N):
                    diff = input[i, j] - mean[i]
                    var_val += diff * diff
                variance[i] = var_val / N

            # Normalize
            for i, j in T.Parallel(M, N):
                output[i, j] = (input[i, j] - mean[i]) / T.sqrt(variance[i] + 1e-5)

    x = (np.random.standard_normal((M, N)) * 3 + 1).astype(np.float32)
    y, mean, variance = tilelang.compile(layer_norm, out_idx=[1, 2, 3], **way(backend))(x)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    if scope == "global":
        np.testing.assert_allclose(mean, x.mean(1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(variance, x.var(1), rtol=1e-4, atol=1e-5)
