import itertools

import numpy as np
import pytest
from cpp import NATIVE, PLAIN, call, compile_functions, needs_compiler

from tilelang.dtypes import as_dtype
from tilelang.isa.common.convert import cpp_type
from tilelang.targets.cpu.isa.gemm import GemmShape, gemm_routine

pytestmark = needs_compiler

DTYPES = [
    ("float32", "float32", "float32"),
    ("float64", "float64", "float64"),
    ("float32", "float32", "float64"),
    ("bfloat16", "bfloat16", "float32"),
    ("bfloat16", "bfloat16", "bfloat16"),
    ("float32", "bfloat16", "float32"),
    ("float16", "float16", "float32"),
    ("float16", "float16", "float16"),
    ("float8_e4m3fn", "float8_e5m2", "float32"),
    ("int8", "int8", "int32"),
    ("uint8", "uint8", "int32"),
    ("int8", "uint8", "int32"),
    ("uint8", "int8", "int32"),
    ("int4", "int8", "int32"),
    ("int32", "int32", "int32"),
]
# what tiles divide, what they do not, single elements, k longer than one chunk; then padding of rows
SIZES = [(64, 64, 64, 0), (1, 1, 1, 0), (7, 17, 5, 3), (1, 130, 7, 0), (37, 3, 65, 1), (5, 20, 1100, 0)]
LARGEST = {"float8_e4m3fn": 4, "float8_e5m2": 4, "int4": 7, "int8": 127, "uint8": 255, "int32": 2**28}
HALVES = ("float16", "bfloat16")


def cases():
    """Each dtype with each size; the transposes take turns, so that all four meet every dtype and size."""
    for d, dtypes in enumerate(DTYPES):
        for s, (m, n, k, pad) in enumerate(SIZES):
            ta, tb = bool((d + s) & 1), bool((d + s) & 2)
            yield dtypes, GemmShape(m, n, k, (m if ta else k) + pad, (k if tb else n) + pad, n + pad, ta, tb)


# one column from widened rows, on which GCC 12 fails unless the rows are written to memory before
CASES = [*cases(), (("float32", "float32", "float64"), GemmShape(33, 1, 1, 1, 1, 1))]


def compiled(place, flags):
    """The library of one case: of the many, few run."""
    dtypes, shape = CASES[place]
    routine = gemm_routine(*map(as_dtype, dtypes), shape)
    types = [cpp_type(as_dtype(dtype)).name for dtype in dtypes]
    function = (
        f"void gemm(const {types[0]}* a, const {types[1]}* b, {types[2]}* c, bool clear)"
        f" {{ {routine.texts['cpp'].format('a', 'b', 'c', 'clear')}; }}"
    )
    return compile_functions([routine.helpers["cpp"]], [function], flags)


def operand(rng, rows, columns, dtype, exact_in):
    """Random whole numbers; for floats so small that all sums are exact in float32 and in a narrow C."""
    largest = LARGEST.get(dtype, 1 if exact_in in HALVES else 4)
    lowest = 0 if dtype.startswith("uint") else -largest
    return rng.integers(lowest, largest, (rows, columns), endpoint=True).astype(as_dtype(dtype).numpy)


@pytest.mark.slow(every=100)
@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("place", range(len(CASES)))
@pytest.mark.parametrize("flags", [NATIVE, PLAIN], ids=["native", "plain"])
def test_tiles_are_multiplied_without_accesses_out_of_bounds(flags, place, clear):
    (a_dtype, b_dtype, c_dtype), shape = CASES[place]
    rng = np.random.default_rng(place)
    a = operand(rng, shape.k if shape.transpose_a else shape.m, shape.lda, a_dtype, c_dtype)
    b = operand(rng, shape.n if shape.transpose_b else shape.k, shape.ldb, b_dtype, c_dtype)
    c = operand(rng, shape.m, shape.ldc, c_dtype, c_dtype)
    wide = np.int64 if c_dtype == "int32" else np.float64
    x = a[:, : shape.m if shape.transpose_a else shape.k].astype(wide)
    y = b[:, : shape.k if shape.transpose_b else shape.n].astype(wide)
    product = (x.T if shape.transpose_a else x) @ (y.T if shape.transpose_b else y)
    expected = c.astype(wide)
    expected[:, : shape.n] = product if clear else expected[:, : shape.n] + product
    expected = expected.astype(as_dtype(c_dtype).numpy)
    call(compiled(place, flags).gemm, a, b, c, clear)
    assert expected.astype(wide).tolist() == c.astype(wide).tolist()


def test_the_cases_cover_all_transposes_of_every_operand_dtype():
    seen = {(dtypes, shape.transpose_a, shape.transpose_b) for dtypes, shape in CASES}
    assert set(itertools.product(DTYPES, (False, True), (False, True))) == seen


@pytest.mark.parametrize("flags", [NATIVE, PLAIN], ids=["native", "plain"])
def test_operands_are_rounded_before_and_results_after_the_sum(flags):
    shape = GemmShape(1, 1, 2, 2, 1, 1)
    routine = gemm_routine(as_dtype("float32"), as_dtype("bfloat16"), as_dtype("float16"), shape)
    text = f"void f(const float* a, const tl::bfloat16* b, tl::float16* c) {{ {routine.texts['cpp'].format('a', 'b', 'c', 'true')}; }}"
    library = compile_functions([routine.helpers["cpp"]], [text], flags)
    a = np.array([[1 + 2.0**-9, 2.0**-11]], np.float32)  # the first is rounded to 1, the sum to even
    b = np.ones((2, 1), as_dtype("bfloat16").numpy)
    c = np.zeros((1, 1), np.float16)
    call(library.f, a, b, c)
    assert 1.0 == c[0, 0]
