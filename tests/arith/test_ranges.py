import itertools

import pytest

from tilelang.arith import ranges
from tilelang.arith.ranges import ANYTHING, Interval
from tilelang.dtypes import FLOAT32, SCALARS
from tilelang.ir.scalar import COMPARISONS, DROPS_NAN, LOGICAL, BinaryOp, exact_binary

ENDS = [-5, -2, -1, 0, 1, 3, 6]
INTERVALS = [Interval(a, b) for a, b in itertools.combinations_with_replacement(ENDS, 2)]
REACH = range(-9, 10)  # stands for all integers where an end is open
OF_FLOATS = (BinaryOp.DIV, *DROPS_NAN.values())
ARITHMETIC = [op for op in BinaryOp if op not in COMPARISONS | LOGICAL and op not in OF_FLOATS]


def members(interval: Interval) -> list[int]:
    return [v for v in REACH if interval.contains(v)]


@pytest.mark.parametrize("op", ARITHMETIC)
def test_the_result_of_an_operator_lies_in_its_bounds(op):
    for a, b in itertools.product(INTERVALS, INTERVALS):
        bounds = ranges.apply(op, a, b)
        assert all(bounds.contains(exact_binary(op, x, y)) for x in members(a) for y in members(b)), (a, b)


@pytest.mark.parametrize("op", ARITHMETIC)
def test_open_ends_are_respected(op):
    half_open = [Interval(end, None) for end in ENDS] + [Interval(None, end) for end in ENDS] + [ANYTHING]
    for a, b in itertools.product(half_open, [*half_open, *INTERVALS[::3]]):
        for left, right in ((a, b), (b, a)):
            bounds = ranges.apply(op, left, right)
            values = [exact_binary(op, x, y) for x in members(left) for y in members(right)]
            assert all(bounds.contains(value) for value in values), (left, right, bounds)


@pytest.mark.parametrize("op", sorted(COMPARISONS, key=lambda op: op.value))
def test_comparisons_of_intervals_say_what_holds_for_all_values(op):
    for a, b in itertools.product(INTERVALS, INTERVALS):
        answers = {exact_binary(op, x, y) for x in members(a) for y in members(b)}
        known = ranges.compare(op, a, b)
        assert known is None or answers == {known}
        if len(answers) == 1 and op is not BinaryOp.NE and op is not BinaryOp.EQ:
            assert known is not None


@pytest.mark.parametrize(
    ("expected", "op", "a", "b"),
    [
        (Interval(0, 7), BinaryOp.FLOORMOD, ANYTHING, Interval(8, 8)),
        (Interval(3, 5), BinaryOp.FLOORMOD, Interval(11, 13), Interval(8, 8)),
        (Interval(0, 15), BinaryOp.FLOORDIV, Interval(0, 127), Interval(8, 8)),
        (Interval(0, 127), BinaryOp.FLOORDIV, Interval(0, 127), Interval(1, None)),
        (Interval(0, None), BinaryOp.FLOORDIV, Interval(0, None), Interval(1, None)),
        (Interval(0, 7), BinaryOp.BITAND, ANYTHING, Interval(7, 7)),
        (Interval(0, 0), BinaryOp.MUL, ANYTHING, Interval(0, 0)),
        (Interval(0, None), BinaryOp.MUL, Interval(0, None), Interval(0, None)),
        (Interval(None, 5), BinaryOp.MIN, ANYTHING, Interval(5, 5)),
        (Interval(5, None), BinaryOp.MAX, ANYTHING, Interval(5, 5)),
        (Interval(0, 15), BinaryOp.BITXOR, Interval(0, 8), Interval(0, 7)),
        (Interval(-4, 3), BinaryOp.SHR, Interval(-8, 7), Interval(1, 1)),
        (ANYTHING, BinaryOp.EQ, Interval(0, 0), Interval(0, 0)),
    ],
)
def test_bounds_are_tight_where_it_matters(expected, op, a, b):
    assert expected == ranges.apply(op, a, b)


def test_intervals_meet_join_and_nest():
    assert Interval(1, 3) == Interval(None, 3).meet(Interval(1, None))
    assert Interval(1, None) == Interval(1, 3).hull(Interval(2, None))
    assert Interval(1, 3).within(Interval(0, None))
    assert not Interval(None, 3).within(Interval(0, None))
    assert 4 == Interval(4, 4).value
    assert ANYTHING.value is None


def test_dtypes_have_ranges():
    assert Interval(-128, 127) == ranges.of_dtype(SCALARS["int8"])
    assert Interval(0, 1) == ranges.of_dtype(SCALARS["bool"])
    assert ANYTHING == ranges.of_dtype(FLOAT32)
