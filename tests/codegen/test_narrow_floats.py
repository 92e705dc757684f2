"""Values of narrow floats are rounded once per operation, however their texts are put together."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang
import tilelang.language as T

FORMS = {
    "sum": lambda a, b: a + b,
    "chain": lambda a, b: a * b + a - b,
    "negated": lambda a, b: -(a * b),
    "choice": lambda a, b: T.if_then_else(a > b, a * b, b),
    "cast on the way": lambda a, b: T.cast(T.cast(a, "float32") * 1.001, a.dtype) * b,
    "cast at the end": lambda a, b: T.cast(T.cast(a, "float32") * T.cast(b, "float32"), a.dtype),
    "cast of a double": lambda a, b: T.cast(T.cast(a, "float64") * 1.0001, a.dtype) + b,
}


def apply(form, dtype, size=4096):
    @T.prim_func
    def main(A: T.Tensor((size,), dtype), B: T.Tensor((size,), dtype), C: T.Tensor((size,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(size):
                C[i] = FORMS[form](A[i], B[i])

    return main


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_every_bit_is_that_of_the_reference(form, dtype):
    rng = np.random.default_rng(0)
    numpy_dtype = tilelang.dtypes.as_dtype(dtype).numpy
    a, b = ((rng.standard_normal(4096) * 2.0 ** rng.integers(-9, 8, 4096)).astype(numpy_dtype) for _ in range(2))
    run_everywhere(apply(form, dtype), a, b, np.zeros(4096, numpy_dtype), rtol=0, atol=0, compile_flags="-O2")


def test_a_rounded_sum_is_stored_without_rounding_it_again():
    text = tilelang.compile(apply("sum", "bfloat16"), target="cpu").get_kernel_source()
    assert "C[i].bits = tl::bfloat16((float)A[i] + (float)B[i]).bits;" in text
