"""Two groups of warps that ping-pong: which steps come in which phase, and what an iteration takes."""

import pytest

from tilelang.schedule.ping_pong import BARRIER_CYCLES, Step, alternating_phases

LOAD, MULTIPLY = Step(memory=100), Step(matrix=400)


def needs(step, *numbers):
    return Step(step.matrix, step.memory, frozenset(numbers))


def test_what_comes_last_is_done_before_the_last_product():
    steps = [LOAD, MULTIPLY, LOAD, MULTIPLY, LOAD]
    assert ((0,), (1,), (2, 4), (3,)) == alternating_phases(steps).phases


def test_products_without_loads_in_between_are_one_phase():
    steps = [LOAD, MULTIPLY, MULTIPLY, LOAD, Step(), MULTIPLY]
    assert ((0,), (1, 2), (3, 4), (5,)) == alternating_phases(steps).phases


def test_each_phase_takes_as_long_as_the_slower_group():
    found = alternating_phases([Step(memory=500), MULTIPLY, LOAD, MULTIPLY])
    # with 500 cycles of memory that of the other group before and after it, then two phases of 400 on either side
    assert 500 + 500 + 400 + 400 + 4 * BARRIER_CYCLES == found.cycles


def test_without_turns_nothing_hides_what_the_first_product_waits_for_and_what_comes_after_the_last():
    found = alternating_phases([LOAD, LOAD, needs(MULTIPLY, 0), LOAD, MULTIPLY, LOAD])
    assert 2 * (100 + 800 + 100) == found.cycles_together
    assert found.gains
    assert not alternating_phases([Step(memory=10), needs(MULTIPLY, 0)]).gains


def test_memory_may_take_longer_than_all_products():
    assert 2 * (100 + 900) == alternating_phases([LOAD, Step(memory=900), needs(MULTIPLY, 0), MULTIPLY]).cycles_together


@pytest.mark.parametrize(
    "steps",
    [
        [LOAD],
        [MULTIPLY, LOAD, MULTIPLY],  # the first group would have nothing to load
        [LOAD, MULTIPLY, needs(LOAD, 1)],  # what is stored is the product
        [LOAD, MULTIPLY, needs(Step(), 1), needs(LOAD, 2)],  # indirectly
    ],
)  # fmt: skip
def test_steps_that_cannot_alternate(steps):
    assert alternating_phases(steps) is None
