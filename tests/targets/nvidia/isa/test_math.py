import numpy as np
import pytest
from cpp import PLAIN, call, compile_functions, needs_compiler
from device_text import HOST, compile_cuda, cuda_source, needs_cuda_compiler

from tilelang.dtypes import as_dtype
from tilelang.isa.catalogue import INTRINSICS
from tilelang.targets.nvidia.isa.intrinsics import templates
from tilelang.targets.nvidia.isa.math import MATH
from tilelang.targets.nvidia.isa.types import cuda_type


def functions():
    """One function per intrinsic and compute dtype, with the helpers that it needs."""
    for name, record in INTRINSICS.items():
        for dtype, text in templates(name).items():
            row = as_dtype(dtype)
            result = record.result((row,) * record.arity)
            kind, made = cuda_type(row).value, cuda_type(result if result in ("bool", "int32") else row).value
            operands = "abc"[: record.arity]
            head = ", ".join(f"{kind} {operand}" for operand in operands)
            yield (
                [text.helper, cuda_type(row).helper],
                f"__device__ {made} f{name}_{dtype}({head}) {{ return {text.format(*operands)}; }}",
            )


@needs_cuda_compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90a"])
def test_every_function_compiles(architecture):
    rows = list(functions())
    source = cuda_source([helper for helpers, _ in rows for helper in helpers], [text for _, text in rows])
    assert compile_cuda(source, architecture)


def test_only_the_fast_names_give_up_accuracy():
    for name, texts in MATH.items():
        fast = texts["float32"].text.startswith(("__", "tl_fast"))
        assert name.startswith("__") == fast
        assert not texts["float64"].text.startswith("__")


@needs_compiler
def test_functions_written_here_compute_their_meaning():
    magnitude, sigmoid = MATH["abs"], MATH["sigmoid"]
    texts = [
        f"void absolute(const int64_t* x, int64_t* y, int64_t n) {{ for (int64_t i = 0; i < n; ++i) y[i] = {magnitude['int64'].format('x[i]')}; }}",
        f"void sigmoid(const double* x, double* y, int64_t n) {{ for (int64_t i = 0; i < n; ++i) y[i] = {sigmoid['float64'].format('x[i]')}; }}",
    ]
    library = compile_functions([HOST, magnitude["int64"].helper, sigmoid["float64"].helper], texts, PLAIN)
    whole = np.array([-(2**63), -5, 0, 7])
    actual = np.zeros_like(whole)
    call(library.absolute, whole, actual, whole.size)
    assert np.abs(whole).tolist() == actual.tolist()
    numbers = np.array([-800.0, -30.0, -1.0, 0.0, 2.0, 700.0, np.inf, -np.inf])
    values = np.zeros_like(numbers)
    call(library.sigmoid, numbers, values, numbers.size)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(values, 1 / (1 + np.exp(-numbers)), rtol=1e-14)
