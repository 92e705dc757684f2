import numpy as np
import pytest
from cpp import PLAIN, call, compile_functions, needs_compiler
from device_text import ARCHITECTURES, HOST, compile_cuda, cuda_source, needs_cuda_compiler

from tilelang.dtypes import SCALARS
from tilelang.ir.scalar import BinaryOp, data_binary
from tilelang.isa.intrinsic import Helper
from tilelang.targets.cpu.codegen.cpp_helpers import HELPERS as CPP_HELPERS
from tilelang.targets.nvidia.isa.arithmetic import DIVIDE, HELPERS

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")
FLOATS = ("float32", "float64")
ON_INTEGERS = {
    "tl_floordiv": BinaryOp.FLOORDIV,
    "tl_floormod": BinaryOp.FLOORMOD,
    "tl_truncdiv": BinaryOp.TRUNCDIV,
    "tl_truncmod": BinaryOp.TRUNCMOD,
    "tl_min": BinaryOp.MIN,
    "tl_max": BinaryOp.MAX,
    "tl_shl": BinaryOp.SHL,
    "tl_shr": BinaryOp.SHR,
}
ON_FLOATS = {
    "tl_floordiv_float": BinaryOp.FLOORDIV,
    "tl_floormod_float": BinaryOp.FLOORMOD,
    "tl_min": BinaryOp.MIN,
    "tl_max": BinaryOp.MAX,
}
CASES = [(name, dtype) for name in ON_INTEGERS for dtype in INTEGERS] + [
    (name, dtype) for name in ON_FLOATS for dtype in FLOATS
]
C_TYPES = {"float32": "float", "float64": "double"}


def functions(prefix):
    for name, dtype in CASES:
        kind = C_TYPES.get(dtype, f"{dtype}_t")
        body = f"for (int64_t i = 0; i < n; ++i) y[i] = {name}<{kind}>(a[i], b[i]);"
        yield f"{prefix} void {name}_{dtype}(const {kind}* a, const {kind}* b, {kind}* y, int64_t n) {{ {body} }}"


@pytest.fixture(scope="module")
def library():
    return compile_functions([HOST, *HELPERS.values()], functions(""), PLAIN)


@needs_compiler
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_helpers_compute_what_the_reference_computes(library, name, dtype):
    row = SCALARS[dtype]
    if row.is_float:
        some = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.1, 7.0, -3.0, np.inf, -np.inf, np.nan]
        op = ON_FLOATS[name]
    else:
        low, high = row.limits
        some = sorted(
            {n for n in (low, low + 1, -33, -8, -3, -1, 0, 1, 2, 7, 8, 31, 32, 63, 64, high) if low <= n <= high}
        )
        op = ON_INTEGERS[name]
    a, b = (
        np.ascontiguousarray(side.ravel()) for side in np.meshgrid(np.array(some, row.numpy), np.array(some, row.numpy))
    )
    actual = np.zeros(a.shape, row.numpy)
    call(getattr(library, f"{name}_{dtype}"), a, b, actual, a.size)
    np.testing.assert_array_equal(actual, data_binary(op, a, b, row))


@needs_cuda_compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80"])  # where texts differ
def test_helpers_compile(architecture):
    assert architecture in ARCHITECTURES
    assert compile_cuda(cuda_source(HELPERS.values(), functions("__device__")), architecture)


def test_the_cpu_knows_them_by_the_same_names():
    assert sorted(CPP_HELPERS) == sorted(HELPERS)


# an approximate reciprocal of 20 bits, one unit off or not, and what host compilers lack
RECIPROCAL = Helper(
    "reciprocal",
    """\
#define __CUDA_PREC_DIV 1
#define __CUDA_ARCH__ 900
#include <cstring>
using std::fma;
static int64_t __double_as_longlong(double x) { int64_t bits; std::memcpy(&bits, &x, 8); return bits; }
static double __longlong_as_double(int64_t bits) { double x; std::memcpy(&x, &bits, 8); return x; }
static double reciprocal(double x, int64_t off) {
    const double r = 1.0 / x;
    if (r == 0.0 || !std::isfinite(r)) return r;
    return __longlong_as_double(((__double_as_longlong(r) >> 32) + off) << 32);
}
static int64_t off;
""",
)
QUOTIENTS = (
    "void divide(const float* a, const float* b, float* y, int64_t n, int64_t error)"
    " { off = error; for (int64_t i = 0; i < n; ++i) y[i] = tl_divide(a[i], b[i]); }"
)


def operands_of_quotients():
    """All kinds of bit patterns, and quotients halfway between two subnormal floats."""
    rng, count = np.random.default_rng(0), 1 << 16
    edges = np.array([0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x40400000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32)
    edges = np.concatenate([edges, edges | np.uint32(1 << 31)])
    a, b = rng.integers(0, 2**32, (2, count), np.uint32)
    tiny = a & np.uint32(0x80FFFFFF)
    odd, divisor = 2 * rng.integers(0, 1 << 12, count) + 1, rng.integers(1, 1 << 10, count) * 2
    halves = (odd * divisor * 2.0**-150).astype(np.float32).view(np.uint32)
    some = rng.choice(edges, count)
    pairs = [(a, b), (tiny, b & np.uint32(0xBFFFFFFF)), (halves, divisor.astype(np.float32).view(np.uint32)), (some, b)]
    pairs += [(a, some), (some, rng.choice(edges, count)), (a & np.uint32(0xBFFFFFFF), b | np.uint32(0x3F800000))]
    return (np.concatenate(side).view(np.float32) for side in zip(*pairs, strict=True))


@needs_compiler
@pytest.mark.parametrize("error", [-1, 0, 1])
def test_quotients_without_branches_are_rounded_once(error):
    approximate = "__nvvm_rcp_approx_ftz_d(y)"
    assert approximate in DIVIDE.text
    divide = Helper(DIVIDE.name, DIVIDE.text.replace(approximate, "reciprocal(y, off)"), needs=(HOST, RECIPROCAL))
    library = compile_functions([divide], [QUOTIENTS], PLAIN)
    a, b = operands_of_quotients()
    actual = np.zeros(a.shape, np.float32)
    call(library.divide, a, b, actual, a.size, error)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((a / b).view(np.uint32)[~np.isnan(actual)], actual.view(np.uint32)[~np.isnan(actual)])
        assert np.array_equal(np.isnan(a / b), np.isnan(actual))
