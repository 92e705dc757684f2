import itertools
import os

import ml_dtypes
import numpy as np
import pytest
from cpp import NATIVE, PLAIN, call, compile_functions, needs_compiler

from tilelang.dtypes import SCALARS, DType, as_dtype
from tilelang.errors import NoLowering
from tilelang.ir.scalar import convert
from tilelang.isa.common.convert import conversion, cpp_type

pytestmark = needs_compiler

# the optimizer takes twice as long for -O3, with TILELANG_SLOW_TESTS, as for what divides loops into vectors
OPTIMIZED = NATIVE if os.environ.get("TILELANG_SLOW_TESTS") else (*NATIVE, "-O1", "-ftree-vectorize")
FLOATS = [name for name, dtype in SCALARS.items() if dtype.is_float]
FINITE = ["float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "float4_e2m1_unpacked"]
NARROW = [name for name in FLOATS if SCALARS[name].bits < 32]
TRUNCATED = ("int4", "int8", "int16", "int32", "int64", "uint8", "bool")  # what floats are converted to below


def is_converted(source: DType, destination: DType) -> bool:
    """Whether a test below converts so. Of others it is enough that the conversion compiles for any processor."""
    if not source.is_float:
        return True
    return "float32" in (source, destination) or source == "float64" if destination.is_float else destination in TRUNCATED


@pytest.fixture(scope="module", params=[OPTIMIZED, PLAIN], ids=["native", "plain"])
def library(request):
    helpers, functions = [], []
    for source, destination in itertools.product(SCALARS.values(), SCALARS.values()):
        if request.param is OPTIMIZED and not is_converted(source, destination):
            continue
        text = conversion(source, destination)
        helpers += [text.helper, cpp_type(source).helper, cpp_type(destination).helper]
        functions.append(
            f"void {source}_to_{destination}(const {cpp_type(source).name}* x, {cpp_type(destination).name}* y, int64_t n)"
            f' {{ _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) y[i] = {text.format("x[i]")}; }}'
        )
    return compile_functions(helpers, functions, request.param)


def converted(library, values, source: DType, destination: DType):
    result = np.zeros(values.shape, destination.numpy)
    call(getattr(library, f"{source}_to_{destination}"), values, result, values.size)
    return result


def bits(array):
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def all_values(dtype: DType):
    width = ml_dtypes.finfo(dtype.numpy).bits if dtype.is_float else dtype.bits  # of what may stand in a wider cell
    codes = np.arange(2**width, dtype=np.uint32)
    return codes.astype(f"u{dtype.storage_bytes}").view(dtype.numpy)


def samples():
    """float32 of every exponent and sign with many fractions, all halves between float16 neighbors among them."""
    high = np.arange(2**19, dtype=np.uint32) << np.uint32(13)
    near = np.concatenate([high, high + np.uint32(1 << 12), high + np.uint32((1 << 12) + 1), high - np.uint32(1)])
    return near.view(np.float32)


def assert_same(expected, actual, dtype):
    """Bit for bit, but for the payload of NaN."""
    missing = np.isnan(expected.astype(np.float32)) if dtype.is_float else np.zeros(expected.shape, bool)
    assert np.array_equal(missing, np.isnan(actual.astype(np.float32))) or not dtype.is_float
    different = (bits(expected) != bits(actual)) & ~missing
    assert [] == list(zip(expected[different][:5], actual[different][:5], strict=True))


@pytest.mark.parametrize("name", NARROW)
def test_every_narrow_float_becomes_the_float32_of_its_value(library, name):
    values = all_values(as_dtype(name))
    with np.errstate(all="ignore"):
        expected = values.astype(np.float32)
    assert_same(expected, converted(library, values, as_dtype(name), as_dtype("float32")), as_dtype("float32"))


@pytest.mark.parametrize("name", NARROW)
def test_float32_rounds_as_the_array_libraries_round(library, name):
    values, dtype = samples(), as_dtype(name)
    with np.errstate(all="ignore"):
        expected = values.astype(dtype.numpy)
    assert_same(expected, converted(library, values, as_dtype("float32"), dtype), dtype)


@pytest.mark.parametrize("name", [name for name in NARROW if name != "float16" and name not in FINITE])
def test_nan_gets_the_code_that_the_array_libraries_give_it(library, name):
    values = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = values.astype(as_dtype(name).numpy)
    assert bits(expected).tolist() == bits(converted(library, values, as_dtype("float32"), as_dtype(name))).tolist()


@pytest.mark.parametrize("name", FINITE)
def test_nan_in_finite_floats_is_a_zero_as_in_ml_dtypes(library, name):
    values = np.array([np.nan, -np.nan], np.float32)
    actual = converted(library, values, as_dtype("float32"), as_dtype(name))
    assert bits(values.astype(as_dtype(name).numpy)).tolist() == bits(actual).tolist()


def test_float64_rounds_to_float16_once(library):
    steps = np.arange(-40, 41) * 2.0**-40
    values = np.concatenate(
        [1 + 2.0**-11 + steps, 2.0**-25 + steps * 2**-10, [65519.99999, 65520.0, np.inf, np.nan, -0.0]]
    )
    with np.errstate(all="ignore"):
        expected = values.astype(np.float16)
    assert_same(expected, converted(library, values, as_dtype("float64"), as_dtype("float16")), as_dtype("float16"))


@pytest.mark.parametrize(
    "source", ["int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_integers_become_floats_as_a_cast_in_the_reference(library, source):
    dtype = as_dtype(source)
    low, high = dtype.limits
    numbers = [
        n
        for n in (0, 1, 3, 7, -1, -8, 17, 100, 2049, 4097, 16777217, 2**31 - 1, 2**40 + 1, low, high)
        if low <= n <= high
    ]
    values = np.array([convert(number, dtype) for number in numbers]).astype(dtype.numpy)
    for destination in map(as_dtype, FLOATS):
        assert_same(convert(values, destination), converted(library, values, dtype, destination), destination)


@pytest.mark.parametrize("source", [name for name, dtype in SCALARS.items() if dtype.is_int or dtype.is_bool])
def test_integers_wrap(library, source):
    dtype = as_dtype(source)
    low, high = dtype.limits
    numbers = sorted({int(n) for n in (low, high, 0, 1, 5, -3, 9, 200, 70000) if low <= n <= high})
    values = np.array([convert(number, dtype) for number in numbers]).astype(dtype.numpy)
    for destination in SCALARS.values():
        if destination.is_int or destination.is_bool:
            expected, actual = convert(values, destination), converted(library, values, dtype, destination)
            found = actual.astype(np.int64).tolist()
            assert (destination, expected.astype(np.int64).tolist()) == (destination, found)


@pytest.mark.parametrize("source", FLOATS)
def test_floats_are_truncated_toward_zero(library, source):
    for destination in TRUNCATED[:-1]:
        if source == "float8_e8m0fnu":
            numbers = [1.0, 2.0, 4.0]
        else:
            numbers = [0.0, 0.5, 1.5, 3.0, 6.0] + ([-0.5, -1.5, -3.0] if destination != "uint8" else [])
        values = np.array(numbers, np.float32).astype(as_dtype(source).numpy)
        actual = converted(library, values, as_dtype(source), as_dtype(destination)).astype(np.float32)
        assert (destination, np.trunc(values.astype(np.float32)).tolist()) == (destination, actual.tolist())


def test_tfloat32_keeps_ten_bits_of_the_fraction(library):
    values = samples()
    actual = converted(library, values, as_dtype("float32"), as_dtype("tfloat32"))
    assert bits(convert(values, as_dtype("tfloat32"))).tolist() == bits(actual).tolist()


@pytest.mark.parametrize("source", list(SCALARS))
def test_only_zero_is_false(library, source):
    values = (
        all_values(SCALARS[source])
        if SCALARS[source].bits <= 8 and source != "bool"
        else np.array([0, 1], SCALARS[source].numpy)
    )
    actual = converted(library, values, SCALARS[source], as_dtype("bool"))
    with np.errstate(all="ignore"):
        assert (values.astype(np.float32) != 0).tolist() == actual.tolist()


def test_vector_dtypes_have_no_type_of_their_own():
    with pytest.raises(NoLowering, match="float16x2: has no C"):
        cpp_type(as_dtype("float16x2"))


def test_narrow_values_are_computed_with_in_a_wider_type():
    names = ("float16", "float8_e5m2", "float64", "int4", "uint8", "bool")
    assert ["float", "float", "double", "int32_t", "uint8_t", "bool"] == [
        cpp_type(as_dtype(name)).value for name in names
    ]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e5m2"])
def test_rounding_in_place_equals_two_conversions(name):
    element = cpp_type(as_dtype(name))
    text = (
        f"void rounded(const float* x, float* y, int64_t n) "
        f'{{ _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) y[i] = {element.name}::rounded(x[i]); }}'
    )
    values = samples()
    result = np.zeros(values.shape, np.float32)
    for flags in (NATIVE, PLAIN):
        call(compile_functions([element.helper], [text], flags).rounded, values, result, values.size)
        with np.errstate(all="ignore"):
            expected = values.astype(as_dtype(name).numpy).astype(np.float32)
        assert_same(expected, result, as_dtype("float32"))
