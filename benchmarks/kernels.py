"""The kernels that are measured: those of `examples/`, with tiles that suit a CPU.

Each function takes sizes and gives a compiled kernel for torch tensors.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def example(name: str) -> ModuleType:
    path = EXAMPLES / name
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gemm(size: int, dtype: str):
    tiles = {"block_M": 128, "block_N": 128, "block_K": 128}
    return example("02_gemm/gemm_simple.py").tensor_core(size, size, size, **tiles, dtype=dtype)


def gemm_program(size: int):
    """The GEMM as a function that is not compiled yet, staged anew at every call."""
    return example("02_gemm/gemm_simple.py").tensor_core.get_tir(size, size, size)


def vector_add(size: int):
    return example("vector_add.py").add(size, block=1024)


def small_vector_add():
    return example("vector_add.py").add(16, block=16)


def softmax(rows: int, cols: int):
    return example("softmax.py").softmax(rows, cols, block_M=1)


def layer_norm(rows: int, cols: int):
    return example("normalization.py").layer_norm(rows, cols, block_M=1)


def attention(batch: int, heads: int, length: int, dim: int):
    factory = example("03_attention/flash_attention.py").flash_attention
    return factory(batch, heads, length, dim, block_M=128, block_N=256, dtype="float32")
