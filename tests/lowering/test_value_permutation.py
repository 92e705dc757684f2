"""Where an instruction's values are among those that a thread holds."""

import numpy as np
import pytest

from tilelang.errors import CompilerBug
from tilelang.layout.thread_values import digit, fragment
from tilelang.lowering.value_permutation import ValuePermutation

LANES = [digit(4, 0, 2), digit(8, 1, 0)]
PAIRS, ROWS, COLUMNS = digit(2, 0, 1), digit(2, 8, 0), digit(4, 0, 8)
WANTED = fragment((16, 32), LANES, [PAIRS, ROWS, COLUMNS])


def test_values_in_the_wanted_order_are_used_in_place():
    order = ValuePermutation(WANTED, WANTED)
    assert np.array_equal(np.arange(16), order.indices)
    assert order.keeps_runs(4)


def test_another_order_of_digits_moves_values():
    order = ValuePermutation(fragment((16, 32), LANES, [PAIRS, COLUMNS, ROWS]), WANTED)
    assert [0, 1, 8, 9, 2, 3, 10, 11] == order.indices[:8].tolist()
    assert order.keeps_runs(2)
    assert not order.keeps_runs(4)


def test_a_place_follows_from_the_coordinate():
    order = ValuePermutation(fragment((16, 32), LANES, [PAIRS, COLUMNS, ROWS]), WANTED)
    for value, place in enumerate(order.indices):
        assert place == order.index(*WANTED.coordinates(0, value))


@pytest.mark.parametrize(
    "other",
    [
        fragment((16, 32), [digit(4, 0, 8), digit(8, 1, 0)], [PAIRS, ROWS, digit(4, 0, 2)]),
        fragment((16, 32), LANES, [PAIRS, ROWS]),
    ],
)
def test_other_owners_are_a_fault_of_ours(other):
    with pytest.raises(CompilerBug):
        _ = ValuePermutation(other, WANTED).indices


def test_elements_that_an_instruction_holds_twice_have_one_place():
    twice = fragment((1, 32), [digit(4, 0, 2), digit(8, 0, 0)], [PAIRS, digit(2, 0, 0), COLUMNS])
    once = fragment((1, 32), [digit(4, 0, 2), digit(8, 0, 0)], [PAIRS, COLUMNS])
    order = ValuePermutation(once, twice)
    assert [0, 1, 0, 1, 2, 3, 2, 3] == order.indices[:8].tolist()
    assert not order.keeps_runs(4)
