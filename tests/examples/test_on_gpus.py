"""Every example on a simulated GPU, in every schedule, by its own check; and compiled for every GPU there is."""

from collections.abc import Callable

import pytest
from examples_of import ONLY, SIZES, benchmark_programs, kernels, load, simulate_example
from fake_cuda import needs_nvrtc
from gpu import SCHEDULES

import tilelang
from tilelang.jit.kernel import JITKernel

# what lets the copy engine and the matrix instructions of warpgroups do it: rows of whole 16 bytes, 64 rows of a tile
ON_HOPPER = {
    "02_gemm/transposed_gemm.py": {"M": 72, "N": 72, "K": 40},
    "02_gemm/persistent_gemm.py": {"M": 100, "N": 72, "K": 40, "num_blocks": 2, "block_M": 64, "block_N": 64},
    "02_gemm/split_k_gemm.py": {"M": 72, "N": 72, "K": 104, "splits": 2, "block_M": 64, "block_N": 64},
    "02_gemm/stream_k_gemm.py": {"M": 100, "N": 72, "K": 104, "num_blocks": 3, "block_M": 64, "block_N": 64},
    "02_gemm/batched_gemm.py": {"batch": 2, "M": 70, "N": 72, "K": 40, "block_M": 64, "block_N": 64},
    "02_gemm/grouped_gemm.py": {"sizes": (5, 0, 70), "N": 72, "K": 40, "block_M": 64, "block_N": 64},
    "02_gemm/gemm_epilogues.py": {"M": 70, "N": 72, "K": 40, "block_M": 64, "block_N": 64},
    "02_gemm/float8_gemm.py": {"M": 70, "N": 136, "K": 272, "block_M": 64},
    "02_gemm/gated_mlp.py": {"tokens": 70, "hidden": 72, "inner": 72, "block_M": 64, "block_N": 64, "block_K": 32},
    "03_attention/flash_attention.py": {"batch": 1, "n_heads": 1, "seq_len": 104, "head_dim": 64},
    "03_attention/attention_variants.py": {"kv_heads": 1, "group": 2, "length": 136, "dim": 64, "variants": ("window and sinks",)},
    "03_attention/varlen_attention.py": {"lengths": (130, 0, 20), "heads": 1, "dim": 64},
    "03_attention/flash_decoding.py": {"batch": 1, "kv_heads": 1, "group": 8, "length": 300, "dim": 64, "splits": 2, "block_H": 64},
    "03_attention/paged_decoding.py": {"lengths": (150, 1), "kv_heads": 1, "group": 8, "dim": 64, "splits": 2, "page": 64},
    # two blocks of keys, since the order in which more add to dQ changes its rounding
    "03_attention/attention_backward.py": {"batch": 1, "heads": 1, "length": 104, "dim": 32},
    "03_attention/float8_attention.py": {"heads": 1, "length": 80, "dim": 32, "block_M": 64, "block_N": 32, "threads": 128},
    "04_mla_decoding/mla_absorbed.py": {"batch": 1, "heads": 64, "length": 200, "dim": 64, "rope_dim": 64, "block_N": 16},
    "04_mla_decoding/mla_paged.py": {"lengths": (150, 1), "heads": 64, "dim": 64, "rope_dim": 64, "splits": 2, "page": 64},
    "04_mla_decoding/mla_sparse.py": {"queries": 2, "heads": 64, "length": 200, "chosen": 100, "dim": 64, "rope_dim": 64},
    "04_mla_decoding/mla_prefill.py": {"heads": 1, "length": 104, "dim": 32, "rope_dim": 16, "block_M": 64, "block_N": 64, "threads": 128},
    "05_quantized_gemm/w4a16_gemm.py": {"M": 70, "N": 72, "K": 192, "block_N": 64},
    "05_quantized_gemm/w8a8_gemm.py": {"M": 130, "N": 72, "K": 144, "block_N": 64},
    "06_linear_attention/retention.py": {"batch": 1, "heads": 1, "length": 200, "dim": 64, "dim_v": 64},
    "06_linear_attention/mamba2.py": {"heads": 1, "groups": 1, "length": 136, "dim_state": 64, "dim": 64},
    "06_linear_attention/gated_delta_rule.py": {"heads": 1, "length": 136, "dim": 64, "dim_v": 64},
    "comparison/gemm_tilelang.py": {"M": 130, "N": 136, "K": 72, "block_N": 64},
}
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
MEASURED = "sm_90a"  # the one that is measured; the others are sampled


def target(arch: str) -> dict[str, str]:
    return {"kind": "cuda", "arch": arch}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SIZES))
def test_example_agrees_with_its_reference_on_a_simulated_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_example(monkeypatch, name, "sm_80", SCHEDULES[:1])


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("name", sorted(ON_HOPPER))
def test_example_agrees_with_its_reference_on_a_simulated_hopper(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_example(monkeypatch, name, "sm_90a", SCHEDULES[:1], **ON_HOPPER[name])


@pytest.mark.slow(every=56)
@pytest.mark.parametrize("name", sorted(ON_HOPPER))
def test_schedules_do_not_change_what_an_example_finds_on_hopper(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_example(monkeypatch, name, "sm_90a", SCHEDULES, **ON_HOPPER[name])


@pytest.mark.slow(every=148)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
@pytest.mark.parametrize("name", sorted(SIZES))
def test_schedules_do_not_change_what_an_example_finds(name: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_example(monkeypatch, name, arch, SCHEDULES)


# -- compiling without a GPU ---------------------------------------------------------------------------------
def compiles(name: str, arch: str) -> None:
    for func in kernels(name).values():
        kernel = tilelang.compile(func, target=target(arch))
        assert kernel.get_cubin().startswith(b"\x7fELF")
        assert 0 < kernel.resources.registers <= 255


@pytest.mark.slow(every=16)
@needs_nvrtc
@pytest.mark.parametrize("name", sorted(SIZES))
def test_example_compiles_for_hopper(name: str) -> None:
    compiles(name, MEASURED)


# tiles are chosen for Hopper, and other GPUs may have to spill
_SPILLS = "ignore:kernel .* spills registers:tilelang.errors.ProgramWarning"


@needs_nvrtc
@pytest.mark.slow(every=172)
@pytest.mark.filterwarnings(_SPILLS)
@pytest.mark.parametrize("arch", [arch for arch in ARCHITECTURES if arch != MEASURED])
@pytest.mark.parametrize("name", sorted(SIZES.keys() - ONLY.keys()))
def test_example_compiles_for_the_other_gpus(name: str, arch: str) -> None:
    compiles(name, arch)


# -- flagship kernels ----------------------------------------------------------------------------------------
def written(name: str, kernel: str, *sizes: int, **options: bool) -> Callable[[str], JITKernel]:
    """A kernel of the examples."""
    return lambda arch: tilelang.compile(getattr(load(name), kernel).get_tir(*sizes, **options), target=target(arch))


def measured(kernel: str, *sizes: int, **options: bool) -> Callable[[str], JITKernel]:
    """A kernel of the benchmarks, compiled as they do."""

    def make(arch: str) -> JITKernel:
        programs = benchmark_programs()
        programs.build = lambda func, **given: tilelang.compile(func, target=target(arch), **given)
        compiled: JITKernel = getattr(programs, kernel)(*sizes, **options)
        return compiled

    return make


ATTENTION = "03_attention/flash_attention.py"
FLAGSHIPS: dict[str, Callable[[str], JITKernel]] = {
    "tiled GEMM": written("02_gemm/gemm_simple.py", "tensor_core", 4096, 4096, 4096),
    "dynamic GEMM": written("dynamic_gemm.py", "matmul"),
    "FlashAttention": written(ATTENTION, "flash_attention", 4, 32, 4096, 64),
    "causal FlashAttention": written(ATTENTION, "flash_attention", 4, 32, 4096, 64, causal=True),
    "softmax": written("softmax.py", "softmax", 4096, 1000),
    "LayerNorm": written("normalization.py", "layer_norm", 4096, 1000),
    "RMSNorm": written("normalization.py", "rms_norm", 4096, 1000),
    "measured GEMM": measured("gemm", 4096, 4096, 4096),
    "measured dynamic GEMM": measured("dynamic_gemm"),
    "measured FlashAttention": measured("attention", 4, 32, 4096, 128),
    "measured causal FlashAttention": measured("attention", 4, 32, 4096, 128, causal=True),
    "measured softmax": measured("softmax", 4096, 16384),
    "measured LayerNorm": measured("layer_norm", 4096, 16384),
    "measured RMSNorm": measured("rms_norm", 4096, 16384),
}


@needs_nvrtc
@pytest.mark.parametrize("arch", [pytest.param("sm_80", marks=pytest.mark.slow(every=20)), pytest.param(MEASURED, marks=pytest.mark.slow(every=4))])
@pytest.mark.parametrize("name", FLAGSHIPS)
def test_flagship_kernels_keep_everything_in_registers(name: str, arch: str) -> None:
    kernel = FLAGSHIPS[name](arch)
    assert (0, 0) == (kernel.resources.spill_bytes, kernel.resources.local_bytes)
    assert not kernel.resources.serialized
