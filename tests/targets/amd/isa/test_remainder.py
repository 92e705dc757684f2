import numpy as np
import pytest
from cpp import call, needs_compiler
from hip_text import assembly_of, function_of, hip_source, needs_clang, on_host

from tilelang.targets.amd.isa.remainder import FMOD

SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.5, 1e-40, -3e-45, 1e300, 5e-324, 1e-310, 3.4e38, np.inf, -np.inf, np.nan]


@needs_compiler
@pytest.mark.parametrize(("kind", "dtype", "powers"), [("float", np.float32, 140), ("double", np.float64, 1050)])
def test_remainders_are_exact(kind: str, dtype: type, powers: int) -> None:
    library = on_host(
        [FMOD],
        [f"void f(const {kind}* x, const {kind}* y, {kind}* r, int64_t n) "
         "{ for (int64_t i = 0; i < n; ++i) r[i] = tl::fmod(x[i], y[i]); }"],
    )  # fmt: skip
    random = np.random.default_rng(1)
    x, y = (np.ldexp(random.uniform(-1, 1, 3000), random.integers(-powers, powers // 2, 3000)) for _ in range(2))
    with np.errstate(all="ignore"):
        more = np.array(SPECIAL, dtype)
        x = np.concatenate([x.astype(dtype), np.repeat(more, more.size)])
        y = np.concatenate([y.astype(dtype), np.tile(more, more.size)])
        found = np.zeros_like(x)
        call(library.f, x, y, found, x.size)
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(expected)])


@needs_clang
def test_the_text_is_one_of_the_device() -> None:
    texts = [function_of(f"f_{kind}", kind, [kind, kind], "tl::fmod(a[i], b[i])") for kind in ("float", "double")]
    assert assembly_of(hip_source([FMOD], texts), "gfx1100")
