"""Conversions, operators and elementary functions on a GPU against their meanings."""

import numpy as np
import pytest
from device_launch import Module, needs_gpu
from device_text import cuda_source

from tilelang.dtypes import SCALARS, as_dtype, lane_dtype
from tilelang.ir.scalar import BinaryOp, convert, data_binary
from tilelang.isa.catalogue import INTRINSICS
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA
from tilelang.targets.nvidia.isa.arithmetic import DIVIDE, HELPERS
from tilelang.targets.nvidia.isa.convert import CONVERSIONS
from tilelang.targets.nvidia.isa.intrinsics import templates
from tilelang.targets.nvidia.isa.types import INTEGERS, cuda_type

pytestmark = needs_gpu


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


VECTORS = [
    (f"{source}x{lanes}", f"{destination}x{lanes}")
    for source in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")
    for destination in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
    for lanes in (2, 4, 8)
    if source != destination
]


# dtypes without NaN
FINITE = ("float4_e2m1fn", "float4_e2m1_unpacked", "float6_e2m3fn", "float6_e3m2fn")


def samples(dtype):
    """All values of a narrow dtype, or many of a wide one."""
    if dtype.is_bool:
        return np.array([False, True] * 8)
    if dtype == "float4_e2m1_unpacked":  # whose upper bits are zero
        return np.arange(16, dtype=np.uint8).view(dtype.numpy)
    if dtype.bits <= 16:
        count = 2**dtype.bits
        return np.arange(count, dtype=np.uint32).astype(f"u{dtype.storage_bytes}").view(dtype.numpy)
    if dtype.is_float:
        high = np.arange(2**19, dtype=np.uint32) << np.uint32(13)
        near = np.concatenate([high, high + np.uint32(1 << 12), high + np.uint32((1 << 12) + 1), high - np.uint32(1)])
        values = near.view(np.float32)
        if dtype == "tfloat32":
            return convert(values, dtype)
        return values.astype(dtype.numpy) if dtype == "float32" else values.astype(np.float64) * (1 + 2.0**-40)
    rng, limits = np.random.default_rng(0), np.iinfo(dtype.numpy)
    edges = [limits.min, limits.max, 0, 1, limits.max - 1]
    powers = [2**k + d for k in range(dtype.bits - 1) for d in (-1, 0, 1)]
    return np.concatenate(
        [np.array(edges + powers, dtype.numpy), rng.integers(limits.min, limits.max, 4096, dtype.numpy)]
    )


def assert_same(expected, actual, dtype):
    expected = np.asarray(expected)
    integer = f"u{expected.dtype.itemsize}"
    different = expected.view(integer) != actual.view(integer)
    if dtype.is_float:
        missing = np.isnan(expected.astype(np.float32))
        assert np.array_equal(missing, np.isnan(actual.astype(np.float32)))
        different &= ~missing
    places = np.flatnonzero(different)[:5]
    assert [] == [(expected[place], actual[place]) for place in places]


def elementwise(name, text, taken, made):
    return (
        f'extern "C" __global__ void {name}(const {taken}* x, {made}* y, const long long* n) {{'
        f" for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < *n; i += gridDim.x * blockDim.x)"
        f" y[i] = {text}; }}"
    )


@pytest.fixture(scope="module")
def conversions():
    pairs = [(a, b) for a in SCALARS.values() for b in SCALARS.values()]
    pairs += [(as_dtype(a), as_dtype(b)) for a, b in VECTORS]
    helpers, functions = [INTEGERS], []
    for source, destination in pairs:
        text = CONVERSIONS.cast(source, destination)
        helpers += [text.helper, cuda_type(source).helper, cuda_type(destination).helper]
        names = cuda_type(source).name, cuda_type(destination).name
        functions.append(elementwise(f"{source}_to_{destination}", text.format("x[i]"), *names))
    return Module(cuda_source(helpers, functions))


def converted(conversions, values, source, destination):
    result = np.zeros(values.shape, destination.numpy)
    count = np.array([values.size // source.lanes], np.int64)
    conversions.run(f"{source}_to_{destination}", values, result, count, threads=256, blocks=64)
    return result


@pytest.mark.parametrize("destination", list(SCALARS))
@pytest.mark.parametrize("source", list(SCALARS))
def test_conversions_are_those_of_the_reference(conversions, source, destination):
    a, b = SCALARS[source], SCALARS[destination]
    values = samples(a)
    if a.is_float and b.is_int:  # beyond the integer's range nothing is defined
        wide = values.astype(np.float64)
        low, high = b.limits
        values = values[(np.trunc(wide) >= max(low, -(2**62))) & (np.trunc(wide) <= min(high, 2**62))]
    if b in FINITE:  # whose stand-in for NaN is a zero with the sign of the NaN, which machines do not keep
        values = values[~np.isnan(values.astype(np.float32))]
    assert_same(convert(values, b), converted(conversions, values, a, b), b)


@pytest.mark.parametrize(("source", "destination"), VECTORS)
def test_vectors_are_cast_lane_by_lane(conversions, source, destination):
    a, b = as_dtype(source), as_dtype(destination)
    values = np.ascontiguousarray(samples(lane_dtype(a)))
    assert_same(convert(values, lane_dtype(b)), converted(conversions, values, a, b), b)


@pytest.fixture(scope="module")
def sums_and_products():
    texts = []
    for name in sorted(CUDA.packed_arithmetic):
        kind = cuda_type(SCALARS[name]).name
        texts += [
            f'extern "C" __global__ void {word}_{name}(const {kind}* a, const {kind}* b, {kind}* y, const long long* n) {{'
            f" for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < *n; i += gridDim.x * blockDim.x)"
            f" y[i] = a[i] {sign} b[i]; }}"
            for word, sign in (("add", "+"), ("sub", "-"), ("mul", "*"))
        ]
    return Module(cuda_source([INTEGERS, *(cuda_type(SCALARS[name]).helper for name in CUDA.packed_arithmetic)], texts))


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("name", sorted(CUDA.packed_arithmetic))
def test_sums_and_products_of_elements_are_rounded_once(sums_and_products, name, op):
    dtype, rng = SCALARS[name], np.random.default_rng(2)
    a = np.tile(samples(dtype), 8)
    near = (a.view(np.uint16) + rng.integers(-3000, 3000, a.size)).astype(np.uint16).view(dtype.numpy)
    for b in (rng.permutation(a), near):
        actual = np.zeros(a.shape, dtype.numpy)
        count = np.array([a.size], np.int64)
        sums_and_products.run(f"{op.lower()}_{name}", a, b, actual, count, threads=256, blocks=64)
        assert_same(data_binary(BinaryOp[op], a, b, dtype), actual, dtype)


MATH = [(name, dtype) for name in INTRINSICS for dtype in templates(name)]
# units in the last place; Source: CUDA C++ Programming Guide, "Mathematical Functions Appendix"
BOUNDS = {"sinh": 3, "pow": 4, "tan": 4, "sigmoid": 3, "tanh": 2, "asinh": 3, "acosh": 4, "atanh": 3, "hypot": 3}


def operands(dtype, arity):
    rng = np.random.default_rng(1)
    if not dtype.is_float:
        values = samples(dtype)
        return [np.ascontiguousarray(np.roll(values, 7 * place)) for place in range(arity)]
    some = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan, 1e-40, 3e38, 100.0, -100.0, 1e10]
    columns = []
    for _ in range(arity):
        scale = 10.0 ** rng.uniform(-6, 2, 50000)
        columns.append(rng.permutation(np.concatenate([some, rng.standard_normal(50000) * scale])).astype(dtype.numpy))
    return columns


@pytest.fixture(scope="module")
def functions():
    helpers, texts = [INTEGERS], []
    for name, dtype in MATH:
        record, row = INTRINSICS[name], as_dtype(dtype)
        text = templates(name)[dtype]
        helpers += [text.helper, cuda_type(row).helper]
        made = record.result((row,) * record.arity)
        kinds = cuda_type(row), cuda_type(made)
        letters = "abc"[: record.arity]
        heads = "".join(f"const {kinds[0].name}* {letter}, " for letter in letters)
        call = text.format(*(f"({kinds[0].value}){letter}[i]" for letter in letters))
        texts.append(
            f'extern "C" __global__ void f{name}_{dtype}({heads}{kinds[1].name}* y, const long long* n) {{'
            f" for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < *n; i += gridDim.x * blockDim.x)"
            f" y[i] = {kinds[1].name}({call}); }}"
        )
    return Module(cuda_source(helpers, texts))


@pytest.mark.parametrize(("name", "dtype"), MATH)
def test_functions_are_as_accurate_as_they_promise(functions, name, dtype):
    record, row = INTRINSICS[name], as_dtype(dtype)
    made = record.result((row,) * record.arity)
    columns = operands(row, record.arity)
    actual = np.zeros(columns[0].shape, made.numpy)
    functions.run(f"f{name}_{dtype}", *columns, actual, np.array([actual.size], np.int64), threads=256, blocks=64)
    expected = np.asarray(record.meaning(*columns)).astype(made.numpy)
    if not row.is_float or not made.is_float:
        assert expected.tobytes() == actual.tobytes()
        return
    if name.startswith("__"):
        small = np.abs(columns[0]) < 3
        if name == "__pow":  # which takes the logarithm of its first operand
            small &= (columns[0] > 0) & (np.abs(columns[1]) < 10)
        close = np.isclose(actual, expected, rtol=2e-3, atol=1e-5, equal_nan=True)
        assert close[small & (np.abs(expected) < 1e30) & (np.abs(expected) > 1e-30)].all()
        return
    assert np.array_equal(np.isnan(expected), np.isnan(actual))
    finite = np.isfinite(expected) & np.isfinite(actual)
    units = np.abs(actual.astype(np.float64) - expected) / np.spacing(np.abs(expected))
    infinite = ~finite & ~np.isnan(expected)
    assert expected[infinite].tolist() == actual[infinite].tolist()
    worst = np.nanargmax(np.where(finite, units, 0))
    assert units[worst] <= BOUNDS.get(name, 2), [*(column[worst] for column in columns), expected[worst], actual[worst]]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32", "float32", "float64"])
@pytest.mark.parametrize("op", ["FLOORDIV", "FLOORMOD", "TRUNCDIV", "TRUNCMOD", "MIN", "MAX", "SHL", "SHR"])
def test_operators_are_those_of_the_reference(op, dtype):
    row, floating = as_dtype(dtype), as_dtype(dtype).is_float
    if floating and op in ("TRUNCDIV", "TRUNCMOD", "SHL", "SHR"):
        pytest.skip("integers only")
    name = f"tl_{op.lower()}" + ("_float" if floating and op in ("FLOORDIV", "FLOORMOD") else "")
    kind = cuda_type(row).name
    if floating:
        some = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.1, 7.0, -3.0, np.inf, -np.inf, np.nan]
    else:
        low, high = row.limits
        some = sorted({n for n in (low, low + 1, -33, -3, -1, 0, 1, 2, 7, 8, 31, 32, 63, 64, high) if low <= n <= high})
    a, b = (
        np.ascontiguousarray(side.ravel()) for side in np.meshgrid(np.array(some, row.numpy), np.array(some, row.numpy))
    )
    actual = np.zeros(a.shape, row.numpy)
    source = (
        f'extern "C" __global__ void k(const {kind}* a, const {kind}* b, {kind}* y)'
        f" {{ const int i = threadIdx.x; y[i] = {name}<{kind}>(a[i], b[i]); }}"
    )
    Module(cuda_source([INTEGERS, HELPERS[name]], [source])).run("k", a, b, actual, threads=a.size)
    np.testing.assert_array_equal(actual, data_binary(BinaryOp[op], a, b, row))


def test_quotients_without_branches_are_rounded_once():
    a, b = np.random.default_rng(0).integers(0, 2**32, (2, 1 << 20), np.uint32).view(np.float32)
    tiny = (a.view(np.uint32) & np.uint32(0x80FFFFFF)).view(np.float32)
    a, b = np.concatenate([a, tiny, tiny, a]), np.concatenate([b, b, a, np.zeros_like(a)])
    source = elementwise("k", "tl_divide(x[i], x[i + *n])", "float", "float")
    actual = np.zeros(a.shape, np.float32)
    count = np.array([a.size], np.int64)
    Module(cuda_source([DIVIDE], [source])).run("k", np.concatenate([a, b]), actual, count, threads=256, blocks=64)
    assert_same(a / b, actual, SCALARS["float32"])
