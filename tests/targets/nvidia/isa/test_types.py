import ml_dtypes
import numpy as np
import pytest
from cpp import PLAIN, call, compile_functions, needs_compiler
from device_text import HOST

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import NoLowering
from tilelang.isa.intrinsic import Helper
from tilelang.targets.nvidia.isa.types import cuda_type, lane_type, words

# those that are made and read by plain C++, at least where the machine has no instruction
SOFTWARE = [name for name, dtype in SCALARS.items() if dtype.is_float and dtype.bits < 32 and name != "float16"]


@pytest.fixture(scope="module")
def library():
    functions = []
    for name in SOFTWARE:
        kind = cuda_type(SCALARS[name]).name
        loop = "for (int64_t i = 0; i < n; ++i) y[i] ="
        functions += [
            f"void decode_{name}(const {kind}* x, float* y, int64_t n) {{ {loop} (float)x[i]; }}",
            f"void encode_{name}(const float* x, {kind}* y, int64_t n) {{ {loop} {kind}(x[i]); }}",
            f"void rounded_{name}(const float* x, float* y, int64_t n) {{ {loop} {kind}::rounded(x[i]); }}",
        ]
    return compile_functions([HOST, *(cuda_type(SCALARS[name]).helper for name in SOFTWARE)], functions, PLAIN)


def samples():
    """float32 of every exponent and sign with many fractions, all halves between neighbors among them."""
    high = np.arange(2**19, dtype=np.uint32) << np.uint32(13)
    near = np.concatenate([high, high + np.uint32(1 << 12), high + np.uint32((1 << 12) + 1), high - np.uint32(1)])
    return near.view(np.float32)


def assert_same(expected, actual):
    missing = np.isnan(expected.astype(np.float32))
    assert np.array_equal(missing, np.isnan(actual.astype(np.float32)))
    integer = f"u{expected.dtype.itemsize}"
    different = (expected.view(integer) != actual.view(integer)) & ~missing
    assert [] == list(zip(expected[different][:5], actual[different][:5], strict=True))


@needs_compiler
@pytest.mark.parametrize("name", SOFTWARE)
def test_every_code_becomes_its_number(library, name):
    dtype = SCALARS[name]
    codes = np.arange(2 ** ml_dtypes.finfo(dtype.numpy).bits, dtype=np.uint32).astype(f"u{dtype.storage_bytes}").view(dtype.numpy)
    actual = np.zeros(codes.shape, np.float32)
    call(getattr(library, f"decode_{name}"), codes, actual, codes.size)
    with np.errstate(all="ignore"):
        assert_same(codes.astype(np.float32), actual)


@needs_compiler
@pytest.mark.parametrize("name", SOFTWARE)
def test_numbers_round_as_the_array_libraries_round(library, name):
    values, dtype = samples(), SCALARS[name]
    with np.errstate(all="ignore"):
        expected = values.astype(dtype.numpy)
    actual = np.zeros(values.shape, dtype.numpy)
    call(getattr(library, f"encode_{name}"), values, actual, values.size)
    assert_same(expected, actual)
    back = np.zeros(values.shape, np.float32)
    call(getattr(library, f"rounded_{name}"), values, back, values.size)
    with np.errstate(all="ignore"):
        assert_same(expected.astype(np.float32), back)


def test_narrow_floats_are_computed_with_in_float_and_nibbles_in_int():
    names = ("float16", "float8_e5m2", "float64", "int4", "uint8", "bool", "tfloat32")
    assert ["float", "float", "double", "int32_t", "uint8_t", "bool", "float"] == [
        cuda_type(as_dtype(name)).value for name in names
    ]
    assert [True, True, False, True, False, False, False] == [cuda_type(as_dtype(name)).is_packed for name in names]


def test_short_vectors_are_words_of_their_size():
    names = ("uint8x1", "int8x2", "float16x2", "float32x2", "float16x8", "float4_e2m1fnx8")
    expected = ["uint8_t", "uint16_t", "uint32_t", "uint2", "uint4", "uint2"]
    assert expected == [cuda_type(as_dtype(name)).name for name in names]
    assert "tl_words<2>" == cuda_type(as_dtype("float32x8")).name
    assert "half_t" == lane_type(as_dtype("float16x8")).name


@pytest.mark.parametrize("size", [0, 3, 12, 24])
def test_sizes_that_no_access_has_have_no_type(size):
    with pytest.raises(NoLowering, match=f"no type of {size} bytes"):
        words(size)


def test_every_dtype_has_a_type_whose_helpers_bring_no_header():
    for dtype in SCALARS.values():
        helper = cuda_type(dtype).helper
        assert helper is None or (isinstance(helper, Helper) and not helper.headers)
