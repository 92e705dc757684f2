import itertools

import numpy as np
import pytest
from cpp import PLAIN, call, compile_functions, needs_compiler
from device_text import ARCHITECTURES, HOST, compile_cuda, cuda_source, needs_cuda_compiler

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import NoLowering
from tilelang.ir.scalar import convert
from tilelang.targets.nvidia.isa.convert import CONVERSIONS
from tilelang.targets.nvidia.isa.types import cuda_type

VECTORS = (
    ("float32x4", "float16x4"),
    ("float32x2", "bfloat16x2"),
    ("float32x4", "float8_e4m3fnx4"),
    ("float16x8", "float32x8"),
    ("float8_e4m3fnx4", "float16x4"),
    ("float8_e4m3fnx4", "float32x4"),
    ("float8_e5m2x8", "float32x8"),
    ("float8_e5m2x4", "float16x4"),
    ("float32x4", "float8_e5m2x4"),
    ("int8x4", "float16x4"),
    ("float64x2", "float16x2"),
    ("float16x8", "bfloat16x8"),
    ("int4x8", "int8x8"),
    ("int32x4", "float16x4"),
)
VECTORS_ON_HOST = (
    ("float32x2", "bfloat16x2"),
    ("float32x4", "float8_e4m3fnx4"),
    ("float32x4", "float8_e5m2x4"),
    ("float32x4", "int8x4"),
)
# without float16, which the host has no text for
ON_HOST = [dtype for name, dtype in SCALARS.items() if name != "float16"]


def function(prefix, number, source, destination):
    text = CONVERSIONS.cast(source, destination)
    loop = "" if prefix else "for (int64_t i = 0; i < n; ++i) "
    body = f"{loop}y[{'0' if prefix else 'i'}] = {text.format('x[0]' if prefix else 'x[i]')};"
    names = cuda_type(source).name, cuda_type(destination).name
    return f"{prefix} void f{number}(const {names[0]}* x, {names[1]}* y, int64_t n) {{ {body} }}"


def helpers(source, destination):
    return [CONVERSIONS.cast(source, destination).helper, cuda_type(source).helper, cuda_type(destination).helper]


@pytest.mark.slow(every=8)
@needs_cuda_compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89"])  # where texts differ
def test_every_conversion_compiles(architecture):
    pairs = list(itertools.product(SCALARS.values(), SCALARS.values()))
    pairs += [(as_dtype(a), as_dtype(b)) for a, b in VECTORS]
    needed = [helper for pair in pairs for helper in helpers(*pair)]
    functions = [function("__device__", number, *pair) for number, pair in enumerate(pairs)]
    assert architecture in ARCHITECTURES
    assert compile_cuda(cuda_source(needed, functions), architecture)


@pytest.fixture(scope="module")
def library():
    pairs = list(itertools.product(ON_HOST, ON_HOST))
    pairs += [(as_dtype(a), as_dtype(b)) for a, b in VECTORS_ON_HOST]
    numbers = {(str(a), str(b)): number for number, (a, b) in enumerate(pairs)}
    functions = [function("", number, *pair) for number, pair in enumerate(pairs)]
    return numbers, compile_functions([HOST, *(h for pair in pairs for h in helpers(*pair))], functions, PLAIN)


def converted(library, values, source, destination):
    numbers, loaded = library
    result = np.zeros(values.shape, as_dtype(destination).numpy)
    count = values.size // as_dtype(source).lanes
    call(getattr(loaded, f"f{numbers[source, destination]}"), values, result, count)
    return result


def numbers_of(dtype):
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_int:
        low, high = dtype.limits
        wanted = (0, 1, 3, 7, -1, -8, 17, 100, 200, 2049, 4097, 70000, 16777217, 2**31 - 1, 2**40 + 1, low, high)
        return np.array([convert(n, dtype) for n in wanted if low <= n <= high]).astype(dtype.numpy)
    # small enough for every integer, and not negative for those without a sign
    values = convert(np.array([0.0, 0.5, 1.0, 1.5, 3.0, 6.0, 0.1, 5.3]), dtype)
    return values[np.isfinite(values.astype(np.float32))]


@needs_compiler
@pytest.mark.parametrize("source", ON_HOST)
def test_conversions_are_those_of_the_reference(library, source):
    values = numbers_of(source)
    for destination in ON_HOST:
        expected = convert(values, destination)
        if destination.is_int and source.is_float:
            expected = np.trunc(values.astype(np.float32)).astype(destination.numpy)
        actual = converted(library, values, str(source), str(destination))
        integer = f"u{expected.dtype.itemsize}"
        assert (destination, expected.view(integer).tolist()) == (destination, actual.view(integer).tolist())


@needs_compiler
@pytest.mark.parametrize("pair", VECTORS_ON_HOST)
def test_vectors_are_cast_lane_by_lane(library, pair):
    limit = 100 if "int" in pair[1] else 500
    values = np.linspace(-limit, limit, 64, dtype=np.float32)
    lane = as_dtype(pair[1].rsplit("x", 1)[0])
    with np.errstate(all="ignore"):
        expected = values.astype(lane.numpy)
    actual = converted(library, values, *pair)
    assert expected.tobytes() == actual.tobytes()


def test_pairs_become_pairs_in_one_instruction_where_there_is_one():
    def body(source, destination):
        return CONVERSIONS.cast(as_dtype(source), as_dtype(destination)).helper.text

    assert "tl_half_pair" in body("float32x4", "float16x4")
    assert "tl_bfloat16_pair" in body("float16x2", "bfloat16x2")
    assert "tl_halves_of_e4m3" in body("float8_e4m3fnx2", "float32x2")
    assert "tl_half_pair" not in body("float64x2", "float16x2")  # would round twice
    assert "tl_half_pair" not in body("int32x2", "float16x2")


def test_a_cast_to_the_same_dtype_is_nothing():
    assert "{0}" == CONVERSIONS.cast(as_dtype("float16x4"), as_dtype("float16x4")).text


def test_lanes_must_agree():
    with pytest.raises(NoLowering, match="different numbers of lanes"):
        CONVERSIONS.cast(as_dtype("float32x4"), as_dtype("float16x2"))


def test_bytes_become_halves_by_an_addition():
    for source in ("int8", "uint8"):
        made = CONVERSIONS.cast(as_dtype(source), as_dtype("float16"))
        assert f"tl_half_of_byte(({source}_t)(x))" == made.format("x")
    bytes_, raised = np.arange(256, dtype=np.uint8), np.arange(0x6400, 0x6500, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(raised - np.float16(1024), bytes_)
    np.testing.assert_array_equal((raised - np.float16(1152))[bytes_ ^ 0x80], bytes_.view(np.int8))
