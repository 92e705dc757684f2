"""The kernels that are measured: those of `examples/`, with tiles that suit a CPU.

Each function takes sizes and gives a compiled kernel for torch tensors; `eager_add` is one that a call compiles.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

import tilelang
import tilelang.language as T

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


def add_factory():
    """What makes the kernel above, to measure what finding it again costs."""
    return example("vector_add.py").add


@tilelang.jit
def eager_add(A, B, C, block: int = 16):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B: T.Tensor((N,), "float32")
    C: T.Tensor((N,), "float32")
    with T.Kernel(T.ceildiv(N, block)) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]


def softmax(rows: int, cols: int):
    return example("softmax.py").softmax(rows, cols, block_M=1)


def softmax_into(rows: int, cols: int):
    """The same kernel, for a result that the caller has."""
    return tilelang.compile(example("softmax.py").softmax.get_tir(rows, cols, block_M=1))


def layer_norm_into(rows: int, cols: int):
    return tilelang.compile(example("normalization.py").layer_norm.get_tir(rows, cols, block_M=1))


def layer_norm(rows: int, cols: int):
    return example("normalization.py").layer_norm(rows, cols, block_M=1)


def attention(batch: int, heads: int, length: int, dim: int):
    factory = example("03_attention/flash_attention.py").flash_attention
    return factory(batch, heads, length, dim, block_M=128, block_N=256, dtype="float32")


def ordinary(torch):
    """By name, what makes a kernel, its arguments and what computes the same: programs as the examples have them."""
    functional = torch.nn.functional
    size = 2048

    def matrix(dtype="float32", side=size):
        return torch.randn(side, side).to(getattr(torch, dtype))

    def gemv(dtype):
        factory = example("gemv.py").gemv
        return factory(size, size, dtype=dtype), (matrix(dtype), matrix(dtype)[0].clone()), lambda a, x: a @ x

    def product(form, dtype, side=512):
        factory = getattr(example("02_gemm/gemm_simple.py"), form)
        return factory(side, side, side, dtype=dtype), (matrix(dtype, side), matrix(dtype, side)), torch.matmul

    def dynamic(dtype):
        factory = example("dynamic_gemm.py").matmul
        return factory(128, 128, 128, dtype=dtype), (matrix(dtype, 1024), matrix(dtype, 1024)), torch.matmul

    def elementwise(form, dtype, theirs):
        return getattr(example("elementwise.py"), form)(size, size, dtype=dtype), (matrix(dtype),), theirs

    def rms_norm():
        kernel = example("normalization.py").rms_norm(size, size)
        return kernel, (matrix(), torch.randn(size)), lambda x, w: functional.rms_norm(x, (size,), w, 1e-6)

    def softmax(dtype):
        kernel = example("softmax.py").softmax(size, size, block_M=4, dtype=dtype)
        return kernel, (matrix(dtype),), lambda x: torch.softmax(x, -1)

    def gelu(x):
        return functional.gelu(x, approximate="tanh")

    return {
        "GEMV float32": lambda: gemv("float32"),
        "GEMV float16": lambda: gemv("float16"),
        "GEMV bfloat16": lambda: gemv("bfloat16"),
        "naive GEMM float32 512": lambda: product("naive", "float32"),
        "GEMM by loops float32 512": lambda: product("tiled", "float32"),
        "GEMM float32 1000, tails": lambda: product("tensor_core", "float32", 1000),
        "GEMM float32 1024, dynamic": lambda: dynamic("float32"),
        "RMSNorm float32": rms_norm,
        "softmax by four rows": lambda: softmax("float32"),
        "softmax float16": lambda: softmax("float16"),
        "GELU float32": lambda: elementwise("gelu", "float32", gelu),
        "GELU float16": lambda: elementwise("gelu", "float16", gelu),
        "ReLU float16": lambda: elementwise("relu", "float16", torch.relu),
        "ReLU bfloat16": lambda: elementwise("relu", "bfloat16", torch.relu),
    }
