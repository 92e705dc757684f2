"""The examples as modules, the small sizes at which tests run them, and every kernel that is in them."""

import contextlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from gpu import run_every_schedule

from tilelang.ir.func import PrimFunc

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

# small sizes with tails on every side, so that the compiler is what is tested and not the clock
SIZES = {
    "quickstart.py": {"M": 130, "N": 257, "K": 67},
    "vector_add.py": {"N": 1003},
    "02_gemm/gemm_simple.py": {"size": 64, "rectangle": (70, 33, 17)},
    "02_gemm/autotuned_gemm.py": {"M": 70, "N": 65, "K": 100, "block_N": 64, "block_K": 32, "num_stages": 1, "threads": 128},
    "02_gemm/gemm_pipelined.py": {"M": 70, "N": 65, "K": 100, "block_M": 32, "block_N": 64, "block_K": 16},
    "02_gemm/warp_specialized_gemm.py": {"M": 100, "N": 72, "K": 200, "block_N": 64, "stages": 2},
    "02_gemm/transposed_gemm.py": {"M": 70, "N": 65, "K": 100},
    "02_gemm/persistent_gemm.py": {"M": 150, "N": 130, "K": 100, "num_blocks": 3, "block_M": 64, "block_N": 64},
    "02_gemm/split_k_gemm.py": {"M": 70, "N": 65, "K": 300, "splits": 3, "block_M": 64, "block_N": 64},
    "02_gemm/stream_k_gemm.py": {"M": 150, "N": 130, "K": 200, "num_blocks": 7, "block_M": 64, "block_N": 64},
    "02_gemm/batched_gemm.py": {"batch": 3, "M": 70, "N": 65, "K": 50, "block_M": 64, "block_N": 64},
    "02_gemm/grouped_gemm.py": {"sizes": (5, 0, 70, 64), "N": 65, "K": 50, "block_M": 64, "block_N": 64},
    "02_gemm/gemm_epilogues.py": {"M": 70, "N": 65, "K": 50, "block_M": 64, "block_N": 64},
    "02_gemm/float8_gemm.py": {"M": 70, "N": 140, "K": 300, "block_M": 64},
    "02_gemm/gated_mlp.py": {"tokens": 70, "hidden": 100, "inner": 72, "block_M": 64, "block_N": 64, "block_K": 32},
    "comparison/gemm_tilelang.py": {"M": 70, "N": 65, "K": 100, "block_M": 64, "block_N": 64},
    "comparison/compare.py": {"shapes": ((512, 512, 512),), "rounds": 1, "repeats": 1},
    "elementwise.py": {"M": 37, "N": 131},
    "softmax.py": {"M": 9, "N": 131},
    "normalization.py": {"M": 9, "N": 131},
    "gemv.py": {"N": 37, "K": 300},
    "03_attention/flash_attention.py": {"batch": 1, "n_heads": 2, "seq_len": 100, "head_dim": 32},
    "03_attention/attention_backward.py": {"batch": 1, "heads": 2, "length": 100, "dim": 32},
    "03_attention/attention_variants.py": {"kv_heads": 1, "group": 2, "length": 100, "dim": 32, "variants": ("window and sinks", "soft cap")},
    "03_attention/varlen_attention.py": {"lengths": (100, 0, 20), "heads": 1, "dim": 32},
    "03_attention/flash_decoding.py": {"batch": 1, "kv_heads": 2, "group": 4, "length": 100, "dim": 32, "splits": 2, "block_N": 32},
    "03_attention/paged_decoding.py": {"lengths": (70, 1), "kv_heads": 2, "group": 4, "dim": 32, "splits": 2, "page": 16},
    "03_attention/float8_attention.py": {"heads": 1, "length": 80, "dim": 32, "block_M": 32, "block_N": 32, "threads": 128},
    "04_mla_decoding/mla_absorbed.py": {"batch": 1, "heads": 20, "length": 100, "dim": 64, "rope_dim": 32, "block_N": 16},
    "04_mla_decoding/mla_paged.py": {"lengths": (70, 1), "heads": 20, "dim": 64, "rope_dim": 32, "splits": 2, "page": 16},
    "04_mla_decoding/mla_sparse.py": {"queries": 2, "heads": 20, "length": 90, "chosen": 40, "dim": 64, "rope_dim": 32, "block_N": 16},
    "04_mla_decoding/mla_decode.py": {"batch": 1, "n_heads": 2, "kv_len": 100, "head_dim": 32, "latent_dim": 48},
    "04_mla_decoding/mla_prefill.py": {"heads": 2, "length": 80, "dim": 32, "rope_dim": 16, "block_M": 32, "block_N": 32, "threads": 128},
    "05_quantized_gemm/w4a16_gemm.py": {"M": 37, "N": 72, "K": 128, "block_N": 64, "threads": 128},
    "05_quantized_gemm/w8a8_gemm.py": {"M": 70, "N": 72, "K": 144, "block_M": 64, "block_N": 64, "threads": 128},
    "06_linear_attention/retention.py": {"batch": 1, "heads": 2, "length": 100, "dim": 32, "dim_v": 40},
    "06_linear_attention/mamba2.py": {"heads": 2, "groups": 1, "length": 100, "dim_state": 32, "dim": 40},
    "06_linear_attention/gated_delta_rule.py": {"heads": 2, "length": 100, "dim": 32, "dim_v": 40},
    "07_computations/attention.py": {"heads": 2, "groups": 1, "length": 50, "dim": 16},
    "07_computations/layers.py": {"tokens": 20, "dim": 48, "classes": 100},
    "07_computations/convolution.py": {"images": 1, "size": 9, "channels": 8, "filters": 20},
    "dynamic_gemm.py": {"sizes": ((64, 64, 64), (1, 65, 33), (5, 1, 7), (5, 7, 0))},
    "eager_style.py": {"M": 65, "N": 33, "K": 40},
    "macro.py": {"M": 65, "N": 33, "K": 40},
}

# a few blocks are enough for the simulator
FEWER = {
    "quickstart.py": {"M": 40, "N": 130, "K": 67},
    "vector_add.py": {"N": 603},
    "02_gemm/gemm_simple.py": {"size": 32, "rectangle": (40, 33, 17)},
    "02_gemm/autotuned_gemm.py": {"M": 20, "N": 40, "K": 50, "block_M": 32, "block_N": 64},  # nothing to tune
    "02_gemm/gemm_pipelined.py": {"M": 20, "N": 40, "K": 50, "block_M": 32, "block_N": 64, "block_K": 16},
    "02_gemm/transposed_gemm.py": {"M": 20, "N": 33, "K": 40, "block_M": 32, "block_N": 32},
    "02_gemm/persistent_gemm.py": {"M": 40, "N": 33, "K": 40, "num_blocks": 3, "block_M": 32, "block_N": 32},
    "02_gemm/split_k_gemm.py": {"M": 20, "N": 33, "K": 100, "splits": 2, "block_M": 32, "block_N": 32},
    "02_gemm/stream_k_gemm.py": {"M": 40, "N": 33, "K": 100, "num_blocks": 3, "block_M": 32, "block_N": 32},
    "02_gemm/batched_gemm.py": {"batch": 2, "M": 20, "N": 33, "K": 50, "block_M": 32, "block_N": 32},
    "02_gemm/grouped_gemm.py": {"sizes": (5, 0, 40), "N": 33, "K": 50, "block_M": 32, "block_N": 32},
    "02_gemm/gemm_epilogues.py": {"M": 20, "N": 33, "K": 50, "block_M": 32, "block_N": 32},
    "02_gemm/float8_gemm.py": {"M": 8, "N": 20, "K": 140, "block_M": 16, "block_N": 32},
    "comparison/gemm_tilelang.py": {"M": 20, "N": 33, "K": 70, "block_M": 32, "block_N": 32},
    "softmax.py": {"M": 5, "N": 131},
    "normalization.py": {"M": 5, "N": 131},
    "03_attention/flash_attention.py": {"batch": 1, "n_heads": 1, "seq_len": 70, "head_dim": 16},
    "03_attention/attention_variants.py": {"kv_heads": 1, "group": 2, "length": 50, "dim": 16, "variants": ("window and sinks",)},
    "03_attention/varlen_attention.py": {"lengths": (50, 0, 20), "heads": 1, "dim": 16, "block_M": 32, "block_N": 32},
    "03_attention/float8_attention.py": {"heads": 1, "length": 48, "dim": 16, "block_M": 16, "block_N": 32, "threads": 64},
    "06_linear_attention/mamba2.py": {"heads": 1, "groups": 1, "length": 50, "dim_state": 16, "dim": 20, "chunk": 32},
    "06_linear_attention/gated_delta_rule.py": {"heads": 1, "length": 50, "dim": 16, "dim_v": 20, "chunk": 32},
    "04_mla_decoding/mla_decode.py": {"batch": 1, "n_heads": 1, "kv_len": 100, "head_dim": 32, "latent_dim": 48},
}

# examples of instructions that only one GPU has, or of dtypes that others convert by code that takes minutes to compile
ONLY = {"02_gemm/warp_specialized_gemm.py": "sm_90a", "03_attention/float8_attention.py": "sm_90a"}

# what ours are compared with
OTHERS = {"comparison/gemm_triton.py"}


def load(name: str) -> ModuleType:
    """An example as a module of its own."""
    path = EXAMPLES / name
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def simulate_example(
    monkeypatch: pytest.MonkeyPatch, name: str, arch: str, schedules: list[tuple[bool, int]], **sizes: object
) -> None:
    """Runs an example on the simulator, as its environment asks for it."""
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", arch)
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "simulator")
    with contextlib.suppress(ImportError):  # examples that measure do so where torch has a GPU
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    run_every_schedule(monkeypatch, schedules)
    load(name).main(**(sizes or {**SIZES[name], **FEWER.get(name, {})}))


def benchmark_programs(name: str = "gpu_kernels") -> ModuleType:
    """A module of the benchmarks; by default, that with the kernels that are measured on GPUs."""
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


def kernels(name: str) -> dict[str, PrimFunc]:
    """Every kernel of an example, not compiled, at a usual size."""
    module = load(name)
    square, blocks = (512, 512, 512), (128, 128, 32)
    attention = (1, 4, 300, 64)
    decode = (2, 4, 300, 64, 128)
    match name:
        case "eager_style.py":
            import numpy as np

            a = np.zeros((256, 130), np.float16)
            b = np.zeros((130, 192), np.float16)
            return {"matmul": module.matmul.get_tir(a, b)}
        case "03_attention/flash_attention.py":
            make = module.flash_attention.get_tir
            return {"full": make(*attention), "causal": make(*attention, causal=True)}
    if name.startswith("07_computations/"):
        return {}  # written by the compiler
    sizes = {
        "quickstart.py": {"matmul_relu": square},
        "vector_add.py": {"add": (1_000_003,)},
        "02_gemm/gemm_simple.py": {"naive": square, "tiled": square, "tensor_core": square},
        "02_gemm/gemm_pipelined.py": {
            style: (*square, *blocks) for style in ("no_pipeline", "double_buffer", "auto_pipeline", "multi_stage")
        },
        "02_gemm/warp_specialized_gemm.py": {"warp_specialized": square},
        "02_gemm/transposed_gemm.py": {"matmul": (*square, True, True)},
        "02_gemm/persistent_gemm.py": {"persistent": square, "loop_over_tiles": square},
        "02_gemm/split_k_gemm.py": {"by_atomics": square, "by_workspace": square},
        "02_gemm/stream_k_gemm.py": {"stream_k": (*square, 7)},
        "02_gemm/batched_gemm.py": {"batched": (3, *square)},
        "02_gemm/grouped_gemm.py": {"grouped": (4, *square)},
        "02_gemm/gemm_epilogues.py": {
            "bias_activation": (*square, "gelu", 64, 64),
            "residual": (*square, 0.5, 2.0, 64, 64),
            "swiglu": (*square, 64, 64),
        },
        "02_gemm/float8_gemm.py": {"block_scaled": square},
        "02_gemm/gated_mlp.py": {"gated_mlp": square},
        "03_attention/attention_backward.py": {"attention_delta": attention, "attention_backward": attention},
        "comparison/gemm_tilelang.py": {"matmul": (*square, 64, 64, 32)},
        "comparison/compare.py": {},
        "elementwise.py": {"relu": (500, 1000), "gelu": (500, 1000)},
        "02_gemm/autotuned_gemm.py": {"matmul": (*square, *blocks, 3, 128)},
        "softmax.py": {"softmax": (255, 1000)},
        "normalization.py": {"layer_norm": (255, 1000), "rms_norm": (255, 1000)},
        "gemv.py": {"gemv": (1000, 1500)},
        "03_attention/attention_variants.py": {"attention": (1, 2, 4, 300, 64)},
        "03_attention/varlen_attention.py": {"varlen_attention": (3, 4, 300, 64)},
        "03_attention/flash_decoding.py": {"flash_decoding": (2, 2, 8, 1000, 64, 3)},
        "03_attention/paged_decoding.py": {"paged_decoding": (2, 2, 8, 12, 5, 64, 3)},
        "03_attention/float8_attention.py": {"float8_attention": (4, 304, 64)},
        "04_mla_decoding/mla_absorbed.py": {"mla_absorbed": (2, 80, 300, 128, 64, 3)},
        "04_mla_decoding/mla_paged.py": {"mla_paged": (2, 80, 12, 5, 128, 64, 3)},
        "04_mla_decoding/mla_sparse.py": {"mla_sparse": (5, 80, 500, 200, 128, 64)},
        "04_mla_decoding/mla_decode.py": {"mla_decode": decode, "mla_decode_split": decode},
        "04_mla_decoding/mla_prefill.py": {"mla_prefill": (1, 4, 304, 64, 32, 64, 64)},
        "05_quantized_gemm/w4a16_gemm.py": {"w4a16_gemm": square},
        "05_quantized_gemm/w8a8_gemm.py": {"w8a8_gemm": square},
        "06_linear_attention/retention.py": {"retention": (1, 4, 300, 64, 96)},
        "06_linear_attention/mamba2.py": {"mamba2": (1, 4, 2, 300, 64, 80)},
        "06_linear_attention/gated_delta_rule.py": {"gated_delta_rule": (1, 4, 300, 64, 96)},
        "dynamic_gemm.py": {"matmul": ()},
        "macro.py": {"matmul_swish": (200, 130, 100)},
    }
    return {kernel: getattr(module, kernel).get_tir(*given) for kernel, given in sizes[name].items()}
