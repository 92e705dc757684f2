import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import as_dtype
from tilelang.isa.common import meaning

bounded = st.floats(-(2.0**49), 2.0**49, width=32)
moderate = st.floats(-1e30, 1e30, allow_nan=False)


def nearest_single(exact: Fraction) -> np.float32:
    """The float32 nearest to a number, ties to even, by comparing neighbors exactly."""
    near = np.float32(float(exact))
    around = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


@given(bounded, bounded, bounded)
def test_single_fma_is_the_exact_result_rounded_once(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert nearest_single(exact) == meaning.fma(np.float32(a), np.float32(b), np.float32(c))


@given(moderate, moderate, moderate)
def test_double_fma_is_the_exact_result_rounded_once(a, b, c):
    assert float(Fraction(a) * Fraction(b) + Fraction(c)) == meaning.fma(np.float64(a), np.float64(b), np.float64(c))


def test_fma_of_infinities_and_nan():
    cases = [(np.inf, 0.0, 1.0), (np.inf, 1.0, -np.inf), (np.inf, 2.0, 1.0), (1e300, 1e300, 0.0), (-1e300, 1e300, 0.0)]
    with np.errstate(all="ignore"):
        results = [meaning.fma(*(np.float64(x) for x in case)) for case in cases]
    assert [True, True, False, False, False] == [math.isnan(result) for result in results]
    assert [np.inf, np.inf, -np.inf] == results[2:]


def test_zero_sums_have_the_sign_of_the_two_operations():
    signs = [np.signbit(meaning.fma(np.float64(a), np.float64(1), np.float64(c))) for a, c in ((-0.0, -0.0), (0.0, -0.0), (2, -2))]
    assert [True, False, False] == signs


def test_integer_fma_wraps():
    assert -2 == meaning.quiet(meaning.fma)(np.int8(127), np.int8(2), np.int8(0))


def test_leading_zeros_count_from_the_width():
    for name in ("uint4", "uint8", "uint16", "uint32", "uint64"):
        width = as_dtype(name).bits
        values = np.array([0] + [1 << bit for bit in range(width)], np.uint64).astype(as_dtype(name).numpy)
        assert [width, *reversed(range(width))] == meaning.leading_zeros(values).tolist()


def test_bits_are_counted():
    assert [0, 1, 8, 4] == meaning.popcount(np.array([0, 128, 255, 0x55], np.uint8)).tolist()


def test_packed_dot_product_broadcasts_and_wraps():
    ones = np.array([0x01010101, -1], np.int32)
    assert [4, -4] == meaning.dot4(ones, np.int32(0x01010101), np.int32(0)).tolist()
    assert -(2**31) == meaning.dot4(np.int32(1), np.int32(1), np.int32(2**31 - 1))
    assert 255 * 255 * 4 == meaning.dot4(np.uint32(2**32 - 1), np.uint32(2**32 - 1), np.uint32(0))


def test_narrow_results_come_from_a_wide_evaluation():
    assert np.float32 == meaning.wide(np.exp)(np.float32(1)).dtype
    assert np.float32(np.exp(np.float64(np.float32(0.1)))) == meaning.wide(np.exp)(np.float32(0.1))


def test_infinite_results_issue_no_warning():
    assert np.inf == meaning.quiet(np.true_divide)(np.float32(1), np.float32(0))
    assert np.isnan(meaning.wide(np.log)(np.float32(-1)))
    assert 0.0 == meaning.wide(meaning.sigmoid)(np.float32(-1e4))


def test_special_functions_at_known_points():
    assert [0.0, math.erf(1.0)] == meaning.erf(np.array([0.0, 1.0])).tolist()
    assert [0.5, 0.25] == meaning.rsqrt(np.array([4.0, 16.0])).tolist()
    assert [100.0] == meaning.exp10(np.array([2.0])).tolist()
    assert [3, 0] == meaning.absolute(np.array([-3, 0])).tolist()


def test_integers_pass_through_rounding_functions():
    assert 7 == meaning.on_integers_identity(np.rint)(np.int64(7))


def test_the_nth_set_bit_is_found_in_both_directions():
    def search(mask, base, offset):
        if offset == 0:
            return base if mask >> base & 1 else 2**32 - 1
        places = range(base, 32) if offset > 0 else range(base, -1, -1)
        found = [place for place in places if mask >> place & 1]
        return found[abs(offset) - 1] if abs(offset) <= len(found) else 2**32 - 1

    rng = np.random.default_rng(0)
    mask = rng.integers(0, 2**32, 300, np.uint32) & rng.integers(0, 2**32, 300, np.uint32)
    base, offset = rng.integers(0, 32, 300), rng.integers(-9, 10, 300)
    expected = [search(*map(int, row)) for row in zip(mask, base, offset, strict=True)]
    words = (base.astype(np.uint32), offset.astype(np.int32).view(np.uint32))
    assert expected == meaning.nth_set_bit(mask, *words).tolist()
    assert 5 == meaning.nth_set_bit(np.uint32(0b101000), np.uint32(0), np.uint32(2))
