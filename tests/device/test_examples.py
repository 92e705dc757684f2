"""Every example on a real GPU, as a user runs it, against its own check; and the programs of the seeds."""

import pytest
from device_launch import SLOW_BY_OTHER_COMPILERS
from examples_of import SIZES, load

from tilelang.testing import requires_cuda, to_device

# sizes of which a GPU has something to do
LARGER = {
    "vector_add.py": {"N": 1_000_003},
    "02_gemm/gemm_simple.py": {"size": 512, "rectangle": (300, 200, 77)},
    "02_gemm/gemm_pipelined.py": {"M": 1024, "N": 768, "K": 1000, "block_M": 128, "block_N": 128, "block_K": 32},
    "02_gemm/persistent_gemm.py": {"M": 3000, "N": 2048, "K": 1000, "num_blocks": 132},
    "02_gemm/stream_k_gemm.py": {"M": 3000, "N": 2048, "K": 1000, "num_blocks": 132},
    "02_gemm/grouped_gemm.py": {"sizes": (1000, 3, 0, 517, 129, 640, 1), "N": 2048, "K": 1000},
    "02_gemm/float8_gemm.py": {"M": 1000, "N": 2000, "K": 1040},
    "02_gemm/warp_specialized_gemm.py": {"M": 2000, "N": 1000, "K": 1032},
    "03_attention/flash_attention.py": {"batch": 2, "n_heads": 8, "seq_len": 1000, "head_dim": 128},
    "04_mla_decoding/mla_decode.py": {"batch": 2, "n_heads": 8, "kv_len": 500, "head_dim": 64, "latent_dim": 128},
}
USUALLY_LARGE = {"comparison/compare.py"}  # it measures, and Triton tries many tiles


@requires_cuda
@pytest.mark.filterwarnings(SLOW_BY_OTHER_COMPILERS)
@pytest.mark.parametrize("name", sorted(SIZES))
@pytest.mark.parametrize("size", ["small", "usual", "larger"])
def test_example_agrees_with_its_reference(name, size, monkeypatch):
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cuda")
    sizes = {"small": SIZES[name], "usual": None if name in USUALLY_LARGE else {}, "larger": LARGER.get(name)}[size]
    if sizes is None:
        pytest.skip("its usual size is large")
    load(name).main(**sizes)


@requires_cuda
@pytest.mark.filterwarnings("ignore:T.Buffer is deprecated:DeprecationWarning")
def test_the_first_program_of_the_seeds_runs_unmodified():
    torch = pytest.importorskip("torch")
    from seeds.test_gemm_with_tile_library import matmul, matmul_with_hints

    import tilelang

    for factory in (matmul, matmul_with_hints):
        func = factory(1024, 1024, 1024, 128, 128, 32)
        jit_kernel = tilelang.JITKernel(func, out_idx=[2], target="cuda")
        a = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
        b = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
        c = jit_kernel(a, b)
        ref_c = a @ b
        torch.testing.assert_close(c, ref_c, rtol=1e-2, atol=1e-2)
        assert jit_kernel.get_profiler().do_bench() > 0


@requires_cuda
@pytest.mark.filterwarnings("ignore:T.Buffer is deprecated:DeprecationWarning")
def test_attention_and_products_of_the_seeds_agree_with_torch():
    torch = pytest.importorskip("torch")
    from seeds.test_code_examples import flash_attention_v2, half, matmul_kernel

    import tilelang

    a, b = to_device(half(1024, 1024), half(1024, 1024), target="cuda")
    func = tilelang.jit(target="cuda", out_idx=[2])(matmul_kernel)(1024, 1024, 1024, 128, 128, 32)
    torch.testing.assert_close(func(a, b), a @ b, rtol=1e-2, atol=1e-1)
    q, k, v = to_device(*(half(2, 4, 2048, 128) for _ in range(3)), target="cuda")
    attend = tilelang.jit(target="cuda", out_idx=[3])(flash_attention_v2)(2, 4, 2048, 128, 64, 64)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(attend(q, k, v), expected, rtol=1e-2, atol=1e-2)
