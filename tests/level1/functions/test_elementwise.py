"""Tests for tilelang.level1.functions.elementwise: every function beside NumPy's, dtypes, errors."""

import math

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, traced
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy_functions import BINARY, BITS, UNARY, operand_of

import tilelang.numpy as tnp
from tilelang.errors import ProgramTypeError, ProgramValueError, StagingTypeError
from tilelang.level1.functions import elementwise


def test_every_function_is_compared() -> None:
    assert set(elementwise.__all__) == {*UNARY, *BINARY, *BITS, "bitwise_invert", "astype"}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_functions_of_one_operand(name: str) -> None:
    for shape in ((), (7,), (0, 3), (1, 4)):
        x = operand_of(name, *shape)
        assert_close(run(getattr(tnp, name), x), UNARY[name](x.astype(np.float64)), 2e-6)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_special_values(name: str) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 80.0, -80.0, 1e-7, 2.5, -0.5], np.float32)
    with np.errstate(all="ignore"):
        expected = UNARY[name](x.astype(np.float64))
        if name == "silu":
            expected[np.isneginf(x)] = np.nan  # -inf * 0
        if expected.dtype.kind == "f":
            expected = expected.astype(np.float32)
    assert_close(run(getattr(tnp, name), x), expected, 2e-5)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_functions_of_two_operands_broadcast(name: str) -> None:
    for first, second in (((4, 1), (3,)), ((), (5,)), ((2, 0), (1,)), ((2, 3), (2, 3))):
        x, y = operand_of(name, *first), numbers(*second, seed=1)
        assert_close(run(getattr(tnp, name), x, y), BINARY[name](x, y))


@pytest.mark.parametrize("name", sorted(BITS))
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "int64"])
def test_functions_of_bits(name: str, dtype: str) -> None:
    x, y = numbers(4, 1, dtype=dtype), np.abs(numbers(5, dtype=dtype, seed=1))
    y = np.minimum(y, 6).astype(y.dtype)
    assert_close(run(getattr(tnp, name), x, y), BITS[name](x, y))


@given(
    hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=4),
    st.sampled_from(["add", "multiply", "subtract", "maximum", "less"]),
)
@settings(max_examples=40, deadline=None)
def test_any_shapes_that_broadcast(shapes: hnp.BroadcastableShapes, name: str) -> None:
    x, y = (numbers(*shape, dtype="int32", seed=n) for n, shape in enumerate(shapes.input_shapes))
    assert_close(run(getattr(tnp, name), x, y), BINARY[name](x, y))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint32"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "equal"])
def test_integers_wrap_as_in_numpy(name: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 7, 3, 0], dtype)
    y = np.array([1, info.max, 3, 2, 5], dtype)
    with np.errstate(all="ignore"):
        assert_close(run(getattr(tnp, name), x, y), BINARY[name](x, y))


def test_bools_invert_and_combine() -> None:
    x, y = np.array([True, True, False]), np.array([True, False, False])
    assert_close(run(lambda a, b: ~a | (a & b) ^ b, x, y), ~x | (x & y) ^ y)


def test_operators_are_the_functions() -> None:
    x, y = numbers(3, 4), numbers(4, seed=1) + np.float32(3)
    assert_close(run(lambda a, b: (a + b) * 2 - a / b, x, y), (x + y) * 2 - x / y)
    assert_close(run(lambda a, b: -a // b + abs(a) % 2.0, x, y), -x // y + np.abs(x) % 2.0)
    assert_close(run(lambda a, b: (1 - a < b) & (a >= 0) | (b != 3), x, y), (1 - x < y) & (x >= 0) | (y != 3))
    i = numbers(5, dtype="int32")
    assert_close(run(lambda a: 7 // (a * a + 1) + (1 << 3) + (a << 1) ^ ~a, i), 7 // (i * i + 1) + (1 << 3) + (i << 1) ^ ~i)
    assert_close(run(lambda a, b: np.float32(2) * a + b, x, y), np.float32(2) * x + y)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, -1, -2, 0.5, 2.5])
def test_powers(exponent: float) -> None:
    x = np.abs(numbers(6)) + np.float32(0.5)
    assert_close(run(lambda a: a**exponent, x), x**exponent)
    assert_close(run(lambda a: 2.0**a, x), 2.0**x)


def test_gelu_by_tanh() -> None:
    x = numbers(9)
    expected = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    assert_close(run(lambda a: tnp.gelu(a, approximate="tanh"), x), expected)


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float64", "int8", "int32", "uint8", "bool"])
def test_conversions(target: str) -> None:
    x = np.array([0.0, 1.0, 1.75, 3.1415927, 100.3], np.float32)
    expected = x.astype(tnp.finfo(target).dtype.numpy if "float" in target else target)
    assert_close(run(lambda a: a.astype(target), x), expected)


def test_narrow_floats_are_not_rounded_before_the_result() -> None:
    x = np.array([1.0], np.float16)
    tiny = 2.0**-12
    assert 1.0 == run(lambda a: a + tiny - 1.0 + 1.0, x)[0]  # the result is float16
    assert np.float16(tiny) == run(lambda a: (a + tiny) - 1.0, x)[0]
    assert 0.0 == run(lambda a: (a + tiny).astype("float16") - 1.0, x)[0]


def test_dtypes_of_results() -> None:
    half, integer, truth = traced(3, dtype="float16"), traced(3, dtype="int8"), traced(3, dtype="bool")
    assert "float16" == (half + 1.5).dtype
    assert "float16" == (half * integer).dtype
    assert "bool" == (half > integer).dtype
    assert "float32" == (integer / 2).dtype
    assert "int8" == (integer + 1).dtype
    assert "float32" == tnp.exp(integer).dtype
    assert "int32" == (tnp.arange(3) + 1).dtype
    assert "float16" == (tnp.arange(3) * half).dtype
    assert "int8" == tnp.floor(integer).dtype
    assert "float32" == (truth * 1.5).dtype


# -- errors --------------------------------------------------------------------------------------------------
def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ProgramValueError) as error:
        traced(4, 5) + traced(4)
    assert str(error.value) == (
        "tnp.add: shapes (4, 5) and (4,) do not broadcast: axis -1 has the extents 5 and 4\n"
        "hint: counted from the last, extents are equal or 1; x[:, None] adds one of 1"
    )


def test_dtypes_that_lose_precision() -> None:
    with pytest.raises(ProgramTypeError) as error:
        traced(4, dtype="int32") * traced(4)
    assert error.value.message == (
        "tnp.multiply: int32 with float32 would lose precision silently; float32 has integers exactly only up to 2**24, "
        "int32 has greater ones"
    )
    assert error.value.hint == 'convert one of them: x.astype("float32")'


def test_a_number_that_the_dtype_lacks() -> None:
    with pytest.raises(ProgramValueError) as error:
        traced(4, dtype="uint8") + 300
    assert error.value.message == "tnp.add: the number 300 is no uint8, which goes from 0 to 255"
    assert error.value.hint == 'convert the array to a wider dtype: x.astype("int32")'


def test_a_function_of_integers_on_floats() -> None:
    with pytest.raises(ProgramTypeError) as error:
        traced(4) & 1
    assert error.value.message == "tnp.bitwise_and: takes integers and bools, not float32"
    assert error.value.hint == 'convert first: x.astype("int32")'


def test_arithmetic_on_bools() -> None:
    with pytest.raises(ProgramTypeError) as error:
        traced(4, dtype="bool") + traced(4, dtype="bool")
    assert error.value.message == "tnp.add: takes numbers, not bool"


def test_an_array_of_the_program_around() -> None:
    with pytest.raises(StagingTypeError) as error:
        traced(4) + np.zeros(4)
    assert error.value.message == (
        "tnp.add: ndarray array([0., 0., 0., 0.]) is neither an array of the computation nor a number"
    )
    assert error.value.hint == "make it an argument of the function marked @tilelang.compute"


def test_a_call_with_too_few_arguments() -> None:
    with pytest.raises(StagingTypeError) as error:
        tnp.maximum(traced(4))
    assert error.value.message == "tnp.maximum: missing a required argument: 'x2'"
    assert error.value.hint == "the form is tnp.maximum(x1, x2)"


def test_an_unknown_approximation() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.gelu(traced(4), approximate="fast")
    assert error.value.message == "tnp.gelu: approximate is 'fast', not 'none' or 'tanh'"
