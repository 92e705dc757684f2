"""Whole programs as HIP: the text of one, and what clang makes of others."""

import pytest
from examples_of import benchmark_programs
from hip_kernels import needs_hiprtc
from hip_text import ARCHES, assembly_of, needs_clang, printed

import tilelang.language as T
from tilelang.targets.amd.isa.types import PRELUDE
from tilelang.targets.amd.runtime.hiprtc import open_hiprtc


@T.prim_func
def scaled(A: T.Tensor((1024,), "float16"), B: T.Tensor((1024,), "float16")):
    with T.Kernel(8, threads=64) as bx:
        tile = T.alloc_shared((128,), "float16")
        T.copy(A[bx * 128], tile)
        for i in T.Parallel(128):
            B[bx * 128 + i] = tile[127 - i] * 2.0


HALF = """\
struct half_t {
    _Float16 number;
    half_t() = default;
    __device__ __forceinline__ explicit half_t(float x) : number((_Float16)x) {}
    __device__ __forceinline__ operator float() const { return (float)number; }
    static __device__ __forceinline__ float rounded(float x) { return (float)(_Float16)x; }
};
"""
KERNEL = """\
// test_hip.py:15: with T.Kernel(8, threads=64) as bx:
extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(64, 64))) scaled_kernel(
    const half_t* __restrict__ A,
    half_t* __restrict__ B
) {
    __shared__ __attribute__((aligned(1024))) unsigned char tl_shared[256];
    const int bx = (int)__builtin_amdgcn_workgroup_id_x();
    int thread = (int)__builtin_amdgcn_workitem_id_x();
    // test_hip.py:16: tile = T.alloc_shared((128,), "float16")
    half_t* const tile = (half_t*)tl_shared;
"""


def test_the_text_of_a_program_can_be_read() -> None:
    text = printed(scaled, "gfx942").text
    assert text.startswith(PRELUDE)
    assert HALF in text and KERNEL in text, text
    assert "#include" not in text


def test_memory_of_a_known_size_is_not_given_by_the_host() -> None:
    source = printed(scaled, "gfx942")
    assert (0, "") == (source.launches[0].shared_bytes, source.launches[0].shared_text)


@pytest.mark.slow(every=24)
@needs_clang
@pytest.mark.parametrize("arch", ARCHES)
def test_gemm_and_attention_compile_without_scratch(arch: str) -> None:
    kernels = benchmark_programs()
    for func in (
        kernels.gemm_program(256, 256, 256, block_M=64, block_N=64),
        kernels.attention_program(1, 1, 128, 64, block_M=64, block_N=64, causal=True),
    ):
        text = assembly_of(printed(func, arch).text, arch)
        assert ".private_segment_fixed_size: 0" in text, func.name
        assert ".max_flat_workgroup_size: " in text


@needs_hiprtc
def test_texts_compile_by_hiprtc_which_has_types_of_its_own() -> None:
    kernels = benchmark_programs()
    for func in (scaled, kernels.attention_program(1, 1, 128, 64, block_M=64, block_N=64)):
        source = printed(func, "gfx90a")
        made = open_hiprtc().compile(source.text, "gfx90a", ("-std=c++17", "-fno-strict-aliasing", *source.flags))
        assert made.code is not None, made.log[:2000]
