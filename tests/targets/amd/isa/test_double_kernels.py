import math

import numpy as np
import pytest
from cpp import call, needs_compiler
from hip_text import on_host

from tilelang.targets.amd.isa.double_kernels import (
    DOUBLE_ATAN,
    DOUBLE_ERF,
    DOUBLE_EXP,
    DOUBLE_HYPERBOLIC,
    DOUBLE_HYPOT,
    DOUBLE_LOG,
    DOUBLE_POW,
    DOUBLE_TRIGONOMETRY,
)

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
mpmath = pytest.importorskip("mpmath")

# name: its helper, the reference, units in the last place that results may be away, and an interval to sample
BOUNDS = {
    "exp2": (DOUBLE_EXP, lambda x: mpmath.power(2, x), 2, -1080, 1030),
    "exp10": (DOUBLE_EXP, lambda x: mpmath.power(10, x), 2, -325, 309),
    "expm1": (DOUBLE_EXP, mpmath.expm1, 2, -5, 5),
    "log": (DOUBLE_LOG, mpmath.log, 2, 1e-3, 10),
    "log2": (DOUBLE_LOG, lambda x: mpmath.log(x, 2), 2, 1e-3, 10),
    "log10": (DOUBLE_LOG, mpmath.log10, 2, 1e-3, 10),
    "log1p": (DOUBLE_LOG, mpmath.log1p, 2, -0.99, 2),
    "tanh": (DOUBLE_HYPERBOLIC, mpmath.tanh, 4, -10, 10),
    "sinh": (DOUBLE_HYPERBOLIC, mpmath.sinh, 4, -720, 720),
    "cosh": (DOUBLE_HYPERBOLIC, mpmath.cosh, 4, -720, 720),
    "asinh": (DOUBLE_HYPERBOLIC, mpmath.asinh, 4, -10, 10),
    "acosh": (DOUBLE_HYPERBOLIC, mpmath.acosh, 4, 1, 5),
    "atanh": (DOUBLE_HYPERBOLIC, mpmath.atanh, 4, -1, 1),
    "atan": (DOUBLE_ATAN, mpmath.atan, 2, -5, 5),
    "asin": (DOUBLE_ATAN, mpmath.asin, 2, -1, 1),
    "acos": (DOUBLE_ATAN, mpmath.acos, 2, -1, 1),
    "sin": (DOUBLE_TRIGONOMETRY, mpmath.sin, 2, -20, 20),
    "cos": (DOUBLE_TRIGONOMETRY, mpmath.cos, 2, -20, 20),
    "tan": (DOUBLE_TRIGONOMETRY, mpmath.tan, 4, -20, 20),
    "erf": (DOUBLE_ERF, mpmath.erf, 6, -6.2, 6.2),
}
OF_TWO = {
    "pow": (DOUBLE_POW, mpmath.power, np.power, 4),
    "atan2": (DOUBLE_ATAN, mpmath.atan2, np.arctan2, 2),
    "hypot": (DOUBLE_HYPOT, mpmath.hypot, np.hypot, 2),
    "nextafter": (DOUBLE_HYPOT, None, np.nextafter, 0),
}
NUMPY = {"exp10": lambda x: np.power(10.0, x), "erf": np.vectorize(math.erf)}
NUMPY |= {f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1e-300, 1.7e308, -1.7e308, 1, -1, 2, -2, 0.5, -0.5, 3, -3]
    + [1e-9, -1e-9, 1e22, 1e300, 1048576.5, 1048575.5, 1e15, 0.3465, -0.3466, 709.7, 709.8, -745, -745.2, -708.5]
)


@pytest.fixture(scope="module")
def library():
    loop = "{{ for (int64_t i = 0; i < n; ++i) r[i] = tl::{}({}); }}"
    one = [f"void {name}_(const double* x, double* r, int64_t n) {loop.format(name, 'x[i]')}" for name in BOUNDS]
    two = [
        f"void {name}_(const double* x, const double* y, double* r, int64_t n) {loop.format(name, 'x[i], y[i]')}"
        for name in OF_TWO
    ]
    return on_host([row[0] for row in (*BOUNDS.values(), *OF_TWO.values())], [*one, *two])


def distance(found: float, exact: object) -> float:
    """Units in the last place from the exact value."""
    nearest = float(exact)  # type: ignore[arg-type]
    if math.isinf(nearest) or math.isinf(found):
        return 0.0 if nearest == found else math.inf
    return float(abs(mpmath.mpf(found) - exact) / mpmath.mpf(max(math.ulp(nearest), 5e-324)))


@pytest.mark.parametrize("name", BOUNDS)
def test_results_are_within_their_bounds(library, name: str) -> None:
    _, reference, bound, low, high = BOUNDS[name]
    random = np.random.default_rng(0)
    x = random.uniform(low, high, 400)
    if name in ("sin", "cos", "tan"):
        x = np.concatenate([x, np.ldexp(random.uniform(0.5, 1, 100), random.integers(15, 1020, 100))])
        x = np.append(x, 6381956970095103 * 2.0**797)  # the double closest to a multiple of pi / 2
    found = np.zeros_like(x)
    call(getattr(library, f"{name}_"), x, found, x.size)
    with mpmath.workprec(1300):
        worst = max((distance(float(y), reference(mpmath.mpf(float(a)))), float(a)) for a, y in zip(x, found, strict=True))
    assert worst[0] <= bound, worst


@pytest.mark.parametrize("name", BOUNDS)
def test_edges_are_those_of_ieee(library, name: str) -> None:
    found = np.zeros_like(SPECIAL)
    call(getattr(library, f"{name}_"), SPECIAL, found, SPECIAL.size)
    expected = NUMPY.get(name, getattr(np, name, None))(SPECIAL)
    np.testing.assert_allclose(found, expected, rtol=1e-15, atol=5e-324)
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[signed], np.signbit(expected)[signed])


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_numbers(library, name: str) -> None:
    _, reference, numpy, bound = OF_TWO[name]
    x, y = np.repeat(SPECIAL, SPECIAL.size), np.tile(SPECIAL, SPECIAL.size)
    found = np.zeros_like(x)
    call(getattr(library, f"{name}_"), x, y, found, x.size)
    expected = numpy(x, y)
    np.testing.assert_allclose(found, expected, rtol=1e-15, atol=5e-324)
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[signed], np.signbit(expected)[signed])
    if reference is None:
        return
    random = np.random.default_rng(0)
    x, y = np.ldexp(random.uniform(0.5, 1, 400), random.integers(-300, 300, 400)), random.uniform(-3, 3, 400)
    found = np.zeros_like(x)
    call(getattr(library, f"{name}_"), x, y, found, x.size)
    with mpmath.workprec(200):
        exact = [reference(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, y, strict=True)]
        assert max(distance(float(r), e) for r, e in zip(found, exact, strict=True)) <= bound
