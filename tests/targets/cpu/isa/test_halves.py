"""Batch conversions of float16 agree with NumPy, for every value, length and instruction set."""

import numpy as np
import pytest
from cpp import NATIVE, PLAIN, call, compile_functions, needs_compiler

from tilelang.targets.cpu.isa.halves import NARROW_HALVES, ROUND_HALVES, WIDEN_HALVES

CODES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def call_text(routine, *arguments):
    return routine.texts["cpp"].format(*arguments)


@pytest.fixture(
    scope="module",
    params=[PLAIN, ("-O1", "-mf16c", "-mavx2"), NATIVE],
    ids=["no instruction", "vectors of eight", "as this machine has them"],
)
def library(request):
    routines = (WIDEN_HALVES, NARROW_HALVES, ROUND_HALVES)
    return compile_functions(
        (routine.helpers["cpp"] for routine in routines),
        (
            f"void widen(float* a, const tl::float16* b, int64_t n) {{ {call_text(WIDEN_HALVES, 'a', 'b', 'n')}; }}",
            f"void narrow(tl::float16* a, const float* b, int64_t n) {{ {call_text(NARROW_HALVES, 'a', 'b', 'n')}; }}",
            f"void round(float* a, int64_t n) {{ {call_text(ROUND_HALVES, 'a', 'n')}; }}",
        ),
        request.param,
    )


def with_neighbors(values):
    """Values, the numbers halfway between them, and the nearest to those."""
    middles = ((values[:-1].astype(np.float64) + values[1:].astype(np.float64)) / 2).astype(np.float32)
    return np.concatenate([values.astype(np.float32), *(np.nextafter(middles, way) for way in (-np.inf, np.inf)), middles])


@needs_compiler
def test_all_values_and_those_between_two_are_converted_like_numpy(library):
    with np.errstate(all="ignore"):
        floats = with_neighbors(CODES)
        expected = floats.astype(np.float16)
    wide = np.zeros(len(CODES), np.float32)
    call(library.widen, wide, CODES, len(CODES))
    np.testing.assert_array_equal(CODES.astype(np.float32), wide)
    narrow = np.zeros(len(floats), np.float16)
    call(library.narrow, narrow, floats, len(floats))
    np.testing.assert_array_equal(expected, narrow)
    np.testing.assert_array_equal(np.signbit(expected), np.signbit(narrow))
    call(library.round, floats, len(floats))
    np.testing.assert_array_equal(expected.astype(np.float32), floats)


@needs_compiler
def test_nothing_after_the_last_element_is_accessed(library):
    halves, floats = CODES[0x3C00:0x3C40], np.linspace(-3, 3, 64, dtype=np.float32)
    for count in range(49):
        wide, narrow, rounded = np.full(64, 7, np.float32), np.full(64, 7, np.float16), floats.copy()
        call(library.widen, wide, halves, count)
        call(library.narrow, narrow, floats, count)
        call(library.round, rounded, count)
        np.testing.assert_array_equal([*halves[:count], *[7] * (64 - count)], wide)
        np.testing.assert_array_equal([*floats[:count].astype(np.float16), *[7] * (64 - count)], narrow)
        np.testing.assert_array_equal([*floats[:count].astype(np.float16), *floats[count:]], rounded)
