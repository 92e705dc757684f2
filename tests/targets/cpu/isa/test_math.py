import numpy as np
import pytest
from cpp import PLAIN, call, compile_functions, needs_compiler

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.isa.catalogue import INTRINSICS
from tilelang.isa.common.convert import cpp_type
from tilelang.targets.cpu.isa.math import MATH

pytestmark = needs_compiler

LIBRARY_FUNCTIONS = ("asin", "acos", "atan", "sinh", "cosh", "floor", "ceil", "trunc", "round", "nearbyint", "abs")
QUESTIONS = ("isnan", "isinf", "isfinite")
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
VALUES = np.array([0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.9, -0.9, 1.0, -1.0, 1e10, np.inf, -np.inf, np.nan])


@pytest.fixture(scope="module")
def library():
    helpers, functions = [], []

    def add(name, dtype, result):
        record = INTRINSICS[name]
        text = MATH[name][dtype]
        helpers.append(text.helper)
        c_type, letters = cpp_type(as_dtype(dtype)).name, "abc"[: record.arity]
        parameters = ", ".join(f"const {c_type}* {letter}" for letter in letters)
        value = text.format(*(f"{letter}[i]" for letter in letters))
        functions.append(
            f"void {name}_{dtype}({parameters}, {result or c_type}* y, int64_t n)"
            f" {{ for (int64_t i = 0; i < n; ++i) y[i] = {value}; }}"
        )

    for dtype in ("float32", "float64"):
        for name in (*LIBRARY_FUNCTIONS, "atan2", "fmod", "fma", "__fdividef"):
            add(name, dtype, None)
        for name in QUESTIONS:
            add(name, dtype, "bool")
    for dtype in WHOLE:
        for name in ("abs", "fma", "floor", "round"):
            add(name, dtype, None)
    return compile_functions(helpers, functions, PLAIN)


def run(library, name, dtype, *operands, result=None):
    arrays = [np.asarray(operand).astype(as_dtype(dtype).numpy) for operand in operands]
    y = np.empty(arrays[0].shape, result or arrays[0].dtype)
    call(getattr(library, f"{name}_{dtype}"), *arrays, y, y.size)
    return y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LIBRARY_FUNCTIONS)
def test_library_functions_compute_their_meaning(library, name, dtype):
    actual = run(library, name, dtype, VALUES)
    expected = INTRINSICS[name].meaning(VALUES.astype(actual.dtype))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    numbers = ~np.isnan(expected)
    assert np.signbit(expected[numbers]).tolist() == np.signbit(actual[numbers]).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["atan2", "fmod", "__fdividef"])
def test_functions_of_two_numbers_compute_their_meaning(library, name, dtype):
    x, z = (side.ravel() for side in np.meshgrid(VALUES, VALUES))
    actual = run(library, name, dtype, x, z)
    np.testing.assert_allclose(actual, INTRINSICS[name].meaning(x.astype(actual.dtype), z.astype(actual.dtype)), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fma_rounds_once(library, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 2000)).astype(as_dtype(dtype).numpy)
    c = -(a * b) * rng.choice([1, 1, 0.5, 1e-9], 2000).astype(a.dtype)
    actual = run(library, "fma", dtype, a, b, c)
    assert INTRINSICS["fma"].meaning(a, b, c).tolist() == actual.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_classification_functions(library, name, dtype):
    actual = run(library, name, dtype, VALUES, result=np.bool_)
    assert INTRINSICS[name].meaning(VALUES).tolist() == actual.tolist()


@pytest.mark.parametrize("dtype", WHOLE)
def test_functions_of_integers(library, dtype):
    low, high = SCALARS[dtype].limits
    values = np.array([low, high, 0, 1, 7], SCALARS[dtype].numpy)
    with np.errstate(all="ignore"):
        expected = {"abs": np.abs(values), "floor": values, "round": values, "fma": values * values + values}
    actual = {name: run(library, name, dtype, *[values] * INTRINSICS[name].arity).tolist() for name in expected}
    assert {name: value.tolist() for name, value in expected.items()} == actual
