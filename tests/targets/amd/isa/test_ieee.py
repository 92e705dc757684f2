import numpy as np
import pytest
from cpp import call, needs_compiler
from hip_text import on_host

from tilelang.isa.common.ieee import MODES, OPERATIONS, ieee
from tilelang.targets.amd.isa.ieee import IEEE, ROUNDING

KINDS = (("float", np.float32), ("double", np.float64))


@pytest.fixture(scope="module")
def library():
    functions = []
    for operation, record in OPERATIONS.items():
        for mode in MODES:
            for kind, dtype in KINDS:
                text = IEEE[f"ieee_{operation}_{mode}"][np.dtype(dtype).name].format("x[i]", "y[i]", "z[i]")
                functions.append(
                    f"void {operation}_{mode}_{kind}(const {kind}* x, const {kind}* y, const {kind}* z, {kind}* r, int64_t n)"
                    f" {{ for (int64_t i = 0; i < n; ++i) r[i] = {text}; }}"
                )
        assert record.arity <= 3
    return on_host([ROUNDING], functions)


@needs_compiler
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_results_are_the_exact_ones_rounded_by_the_mode(library, operation: str, mode: str, kind: str, dtype: type) -> None:
    record = ieee(operation, mode)
    random = np.random.default_rng(3)
    powers = 30 if kind == "float" else 200
    x, y, z = (np.ldexp(random.uniform(-1, 1, 300), random.integers(-powers, powers, 300)).astype(dtype) for _ in range(3))
    edges = np.array([0.0, 1.0, -1.0, 1.5, 3.0, 2.0**-20, np.finfo(dtype).max, -np.finfo(dtype).max], dtype)
    x = np.concatenate([x, np.repeat(edges, 8)])
    y = np.concatenate([y, np.tile(edges, 8)])
    z = np.concatenate([z, np.repeat(edges, 8)])
    if operation in ("fsqrt", "frsqrt"):
        x = np.abs(x)
    found = np.zeros_like(x)
    with np.errstate(all="ignore"):
        call(getattr(library, f"{operation}_{mode}_{kind}"), x, y, z, found, x.size)
        expected = np.array([record.meaning(*each) for each in zip(*(x, y, z)[: record.arity], strict=True)], dtype)
    if operation == "frsqrt":  # which is correct but for one of many
        np.testing.assert_array_max_ulp(found, expected, 1)
        return
    np.testing.assert_array_equal(found, expected)
    signed = ~np.isnan(expected) & (x != 0) & (y != 0)  # the reference is not sure of sums of zeros
    np.testing.assert_array_equal(np.signbit(found)[signed], np.signbit(expected)[signed])
