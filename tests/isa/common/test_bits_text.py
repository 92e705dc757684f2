import numpy as np
import pytest
from cpp import PLAIN, call, compile_functions, needs_compiler

from tilelang.dtypes import as_dtype
from tilelang.isa.catalogue import INTRINSICS
from tilelang.isa.common.bits_text import BITS

pytestmark = needs_compiler

UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


@pytest.fixture(scope="module")
def library():
    helpers, functions = [], []
    for name in ("popcount", "clz"):
        for dtype in ("uint4", *UNSIGNED):
            text = BITS[name][dtype]
            helpers.append(text.helper)
            c_type = "uint8_t" if dtype == "uint4" else f"{dtype}_t"
            functions.append(
                f"void {name}_{dtype}(const {c_type}* x, int32_t* y, int64_t n)"
                f" {{ for (int64_t i = 0; i < n; ++i) y[i] = {text.format('x[i]')}; }}"
            )
    for dtype in ("int32", "uint32"):
        text = BITS["dp4a"][dtype]
        helpers.append(text.helper)
        functions.append(
            f"void dp4a_{dtype}(const {dtype}_t* a, const {dtype}_t* b, const {dtype}_t* c, {dtype}_t* y, int64_t n)"
            f" {{ for (int64_t i = 0; i < n; ++i) y[i] = {text.format('a[i]', 'b[i]', 'c[i]')}; }}"
        )
    fns = BITS["fns"]["uint32"]
    helpers.append(fns.helper)
    functions.append(
        "void fns(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* y, int64_t n)"
        f" {{ for (int64_t i = 0; i < n; ++i) y[i] = {fns.format('a[i]', 'b[i]', 'c[i]')}; }}"
    )
    return compile_functions(helpers, functions, PLAIN)


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("name", ["popcount", "clz"])
def test_bits_are_counted_in_the_width_of_the_dtype(library, name, dtype):
    width = as_dtype(dtype).bits
    x = np.array([0, 1, 2, 3, 2**width - 1, 2 ** (width - 1), 2 ** (width - 1) + 5], as_dtype(dtype).numpy)
    y = np.empty(x.shape, np.int32)
    call(getattr(library, f"{name}_{dtype}"), x, y, x.size)
    assert INTRINSICS[name].meaning(x).tolist() == y.tolist()


@pytest.mark.parametrize("name", ["popcount", "clz"])
def test_bits_of_four_bit_integers_are_counted_in_four_bits(library, name):
    x = np.arange(16, dtype=np.uint8)
    y = np.empty(x.shape, np.int32)
    call(getattr(library, f"{name}_uint4"), x, y, x.size)
    assert INTRINSICS[name].meaning(x.view(as_dtype("uint4").numpy)).tolist() == y.tolist()


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_packed_bytes_are_multiplied_with_their_signs(library, dtype):
    a, b, c = np.random.default_rng(0).integers(0, 2**32, (3, 100), np.uint32).view(as_dtype(dtype).numpy)
    y = np.empty_like(a)
    call(getattr(library, f"dp4a_{dtype}"), a, b, c, y, y.size)
    assert INTRINSICS["dp4a"].meaning(a, b, c).tolist() == y.tolist()


def test_the_nth_set_bit_is_found(library):
    rng = np.random.default_rng(0)
    mask, base = rng.integers(0, 2**32, 300, np.uint32), rng.integers(0, 34, 300).astype(np.uint32)
    offset = rng.integers(-9, 10, 300).astype(np.int32).view(np.uint32)
    y = np.empty_like(mask)
    call(library.fns, mask, base, offset, y, y.size)
    assert INTRINSICS["fns"].meaning(mask, base, offset).tolist() == y.tolist()
