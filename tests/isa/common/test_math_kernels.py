import numpy as np
import pytest
from cpp import NATIVE, PLAIN, call, compile_functions, needs_compiler

from tilelang.dtypes import FLOAT32, FLOAT64
from tilelang.isa.catalogue import INTRINSICS
from tilelang.isa.intrinsic import Helper, ordered_helpers
from tilelang.targets.cpu.isa.math import MATH

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

# name: units in the last place that float32 results may be away, and an interval to sample densely
FLOAT32_BOUNDS = {
    "exp": (2, -104, 89),
    "exp2": (2, -150, 128),
    "exp10": (2, -45, 38.6),
    "log": (2, 0, 10),
    "log2": (2, 0, 10),
    "log10": (2, 0, 10),
    "log1p": (2, -1, 2),
    "tanh": (3, -10, 10),
    "sigmoid": (3, -100, 100),
    "erf": (2, -4.2, 4.2),
    "sin": (2, -200, 200),
    "cos": (2, -200, 200),
    "tan": (4, -200, 200),
    "rsqrt": (2, 0, 10),
    "sqrt": (1, 0, 10),
}
FLOAT64_BOUNDS = {"exp": (-740, 709), "sigmoid": (-700, 700)}
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e-45, -1e-45, 1e-38, -1e-38, 3.4e38, -3.4e38]
    + [88.72283, 88.72284, -87.4, -103.97, -104, 127.9999, 128, -149, -150, 38.53184, 1e30, 16777216, 16777217, 1e-7, -1e-7],
    np.float32,
)


@pytest.fixture(scope="module", params=[NATIVE, PLAIN], ids=["native", "plain"])
def library(request):
    helpers, functions = [], []
    for name in (*FLOAT32_BOUNDS, "pow"):
        for dtype, c_type in ((FLOAT32, "float"), (FLOAT64, "double")):
            text = MATH[name][str(dtype)]
            helpers.append(text.helper)
            second, operands = ("", ["x[i]"]) if name != "pow" else (f"const {c_type}* z, ", ["x[i]", "z[i]"])
            functions.append(
                f"void {name}_{dtype}(const {c_type}* x, {second}{c_type}* y, int64_t n) {{"
                f" _Pragma(\"omp simd\") for (int64_t i = 0; i < n; ++i) y[i] = {text.format(*operands)}; }}"
            )
    return compile_functions(helpers, functions, request.param)


def test_every_function_has_its_helpers():
    parts = []
    for number, name in enumerate((*FLOAT32_BOUNDS, "pow")):
        own = ordered_helpers(h for h in [MATH[name]["float32"].helper] if h is not None)
        text = "\n".join(helper.text for helper in own)
        parts.append(Helper(name, f"namespace alone_{number} {{\n{text}\n}}", headers=tuple(x for h in own for x in h.headers)))
    compile_functions(parts, [], PLAIN)


def worst(exact, actual):
    """The largest distance in units in the last place; infinite where NaN, an infinity or a zero's sign is wrong."""
    dtype = actual.dtype
    rounded = exact.astype(dtype)
    unit = np.spacing(np.minimum(np.abs(rounded), np.finfo(dtype).max)).astype(np.float64)
    distance = np.abs(actual.astype(np.float64) - exact) / unit
    largest = float(np.finfo(dtype).max)
    brink = (np.isinf(rounded) | np.isinf(actual)) & (np.abs(np.abs(exact) / largest - 1) < 1e-6)
    same = np.isnan(rounded) & np.isnan(actual) | np.isinf(rounded) & (rounded == actual)
    distance[same | brink] = 0
    distance[np.isnan(distance)] = np.inf
    distance[(rounded == 0) & (actual == 0) & (np.signbit(rounded) != np.signbit(actual))] = np.inf
    return float(distance.max())


def exact_value(name, *operands):
    if name == "sigmoid":  # without the overflow of exp(-x), which the plain formula has for x below -709
        e = np.exp(-np.abs(operands[0]))
        return np.where(operands[0] < 0, e, 1) / (1 + e)
    return np.asarray(INTRINSICS[name].meaning(*operands))


@pytest.mark.parametrize("name", list(FLOAT32_BOUNDS))
def test_float32_functions_are_close_on_every_kind_of_number(library, name):
    bound, low, high = FLOAT32_BOUNDS[name]
    any_bits = np.random.default_rng(0).integers(0, 2**32, 300_000, np.uint32).view(np.float32)
    x = np.concatenate([SPECIAL, np.linspace(low, high, 300_001).astype(np.float32), any_bits])
    y = np.empty_like(x)
    call(getattr(library, f"{name}_float32"), x, y, x.size)
    assert worst(exact_value(name, x.astype(np.float64)), y) <= bound


def test_float32_pow_is_correct_at_all_pairs_of_special_numbers_and_close_elsewhere(library):
    rng = np.random.default_rng(0)
    first, second = (side.ravel() for side in np.meshgrid(SPECIAL, SPECIAL))
    base = np.abs(rng.standard_normal(200_000) * 5).astype(np.float32)
    whole = rng.integers(-9, 9, 10_000).astype(np.float32)
    x = np.concatenate([first, base, rng.standard_normal(10_000).astype(np.float32)])
    z = np.concatenate([second, (rng.standard_normal(200_000) * 20).astype(np.float32), whole])
    y = np.empty_like(x)
    call(library.pow_float32, x, z, y, x.size)
    assert worst(exact_value("pow", x.astype(np.float64), z.astype(np.float64)), y) <= 1


@pytest.mark.parametrize("name", list(FLOAT64_BOUNDS))
def test_own_float64_functions_are_close(library, name):
    low, high = FLOAT64_BOUNDS[name]
    x = np.concatenate([np.linspace(low, high, 100_001), SPECIAL[np.abs(SPECIAL) < 1e3].astype(np.float64), [np.nan]])
    y = np.empty_like(x)
    call(getattr(library, f"{name}_float64"), x, y, x.size)
    assert worst(exact_value(name, x), y) <= 3


def test_float64_exp_reaches_both_limits(library):
    x = np.array([-np.inf, np.inf, 710.0, -746.0, 0.0])
    y = np.empty_like(x)
    call(library.exp_float64, x, y, x.size)
    assert [0.0, np.inf, np.inf, 0.0, 1.0] == y.tolist()
