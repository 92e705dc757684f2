"""The programs into which faults are seeded: the examples, with tiles and sizes that make small simulations.

Arguments are small integers, so that sums are exact and any difference is an error.
"""

import importlib.util
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name):
    path = EXAMPLES / name
    spec = importlib.util.spec_from_file_location(f"faulty_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrays(*shapes, dtype="float16", out_dtype=None):
    """Integers for all but the last shape, which is the output's."""
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes[:-1]]
    return [*inputs, np.zeros(shapes[-1], out_dtype or dtype)]


def gemm(form, *tiles, **options):
    def make():
        factory = getattr(example(f"02_gemm/{form[0]}.py"), form[1])
        return factory.get_tir(40, 40, 48, *tiles, **options), arrays((40, 48), (48, 40), (40, 40))

    return make


def quickstart():
    func = example("quickstart.py").matmul_relu.get_tir(40, 48, 64, 32, 32, 16)
    return func, arrays((40, 64), (64, 48), (40, 48))


def vector_add():
    return example("vector_add.py").add.get_tir(300, 128), arrays(300, 300, 300, dtype="float32")


def relu():
    return example("elementwise.py").relu.get_tir(9, 150), arrays((9, 150), (9, 150), dtype="float32")


def softmax():
    """One element far above the others, held by the last lane of a warp: every step of a fold must do its part."""
    x = np.full((3, 256), -1000.0, np.float32)
    x[:, 63] = 1.0
    return example("softmax.py").softmax.get_tir(3, 256), [x, np.zeros_like(x)]


def gemv():
    return example("gemv.py").gemv.get_tir(20, 300, 16, 128), arrays((20, 300), 300, 20)


def dynamic_gemm():
    return example("dynamic_gemm.py").matmul.get_tir(32, 32, 16), arrays((33, 40), (40, 30), (33, 30))



PROGRAMS = {
    "quickstart": quickstart,
    "vector_add": vector_add,
    "relu": relu,
    "softmax": softmax,
    "gemv": gemv,
    "dynamic_gemm": dynamic_gemm,
    "gemm, naive": gemm(("gemm_simple", "naive")),
    "gemm, tiled": gemm(("gemm_simple", "tiled"), 32, 32, 16),
    "gemm, tensor cores": gemm(("gemm_simple", "tensor_core"), 32, 32, 16),
    "gemm, not pipelined": gemm(("gemm_pipelined", "no_pipeline"), 32, 32, 16),
    "gemm, two buffers by hand": gemm(("gemm_pipelined", "double_buffer"), 32, 32, 16),
    "gemm, three stages": gemm(("gemm_pipelined", "multi_stage"), 32, 32, 16, num_stages=3),
}
