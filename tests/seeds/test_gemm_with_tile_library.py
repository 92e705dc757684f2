"""The program of the first founding document, on the device that is present."""

import pytest

import tilelang
import tilelang.language as T
from tilelang.intrinsics import make_mma_swizzle_layout

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:T.Buffer is deprecated:DeprecationWarning")


def matmul(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float"):
    @T.prim_func
    def main(
        A: T.Buffer((M, K), dtype),
        B: T.Buffer((K, N), dtype),
        C: T.Buffer((M, N), dtype),
    ):
        # Initialize Kernel Context
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local  = T.alloc_fragment((block_M, block_N), accum_dtype)

            # Optional layout hints (commented out by default)
            # T.annotate_layout({
            #     A_shared: make_mma_swizzle_layout(A_shared),
            #     B_shared: make_mma_swizzle_layout(B_shared),
            # })

            # Optional: Enabling swizzle-based rasterization
            # T.use_swizzle(panel_size=10, enable=True)

            # Clear local accumulation
            T.clear(C_local)

            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                # Copy tile of A from global to shared memory
                T.copy(A[by * block_M, ko * block_K], A_shared)

                # Parallel copy tile of B from global to shared memory
                for k, j in T.Parallel(block_K, block_N):
                    B_shared[k, j] = B[ko * block_K + k, bx * block_N + j]

                # Perform a tile-level GEMM
                T.gemm(A_shared, B_shared, C_local)

            # Copy result from local (register fragment) to global memory
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def matmul_with_hints(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float"):
    """The same with the optional lines taken out of their comments."""

    @T.prim_func
    def main(
        A: T.Buffer((M, K), dtype),
        B: T.Buffer((K, N), dtype),
        C: T.Buffer((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local  = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.annotate_layout({
                A_shared: make_mma_swizzle_layout(A_shared),
                B_shared: make_mma_swizzle_layout(B_shared),
            })

            T.use_swizzle(panel_size=10, enable=True)

            T.clear(C_local)

            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, ko * block_K], A_shared)

                for k, j in T.Parallel(block_K, block_N):
                    B_shared[k, j] = B[ko * block_K + k, bx * block_N + j]

                T.gemm(A_shared, B_shared, C_local)

            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@pytest.mark.usefixtures("optimized_cpp")
def test_the_program_runs_as_it_stands() -> None:
    func = matmul(1024, 1024, 1024, 128, 128, 32)

    jit_kernel = tilelang.JITKernel(func, out_idx=[2], target="auto")

    a = torch.randn(1024, 1024, dtype=torch.float32).to(torch.float16)
    b = torch.randn(1024, 1024, dtype=torch.float32).to(torch.float16)

    c = jit_kernel(a, b)
    ref_c = (a.float() @ b.float()).half()

    torch.testing.assert_close(c, ref_c, rtol=1e-2, atol=1e-2)

    source = jit_kernel.get_kernel_source()
    assert "" != source

    profiler = jit_kernel.get_profiler()
    latency = profiler.do_bench(warmup=1, rep=5)
    assert latency > 0


def test_the_optional_hints_change_nothing() -> None:
    a = torch.randn(256, 128).to(torch.float16)
    b = torch.randn(128, 256).to(torch.float16)
    plain = tilelang.JITKernel(matmul(256, 256, 128, 128, 128, 32), out_idx=[2], target="auto")
    hinted = tilelang.JITKernel(matmul_with_hints(256, 256, 128, 128, 128, 32), out_idx=[2], target="auto")
    assert torch.equal(plain(a, b), hinted(a, b))


def test_the_program_means_the_same_to_the_reference_interpreter() -> None:
    a = torch.randint(-3, 4, (100, 70)).to(torch.float16)
    b = torch.randint(-3, 4, (70, 90)).to(torch.float16)
    kernel = tilelang.compile(
        matmul(100, 90, 70, 32, 64, 16), out_idx=[2], target="auto", execution_backend="reference"
    )
    assert torch.equal((a.float() @ b.float()).half(), kernel(a, b))
