"""The nearest placement keeps all dependences, and is the given one where that keeps them."""

from hypothesis import given
from hypothesis import strategies as st

from tilelang.analysis.stage_order import keeps, nearest_legal
from tilelang.saved_schedule import Placement, in_sequence


def test_a_reader_is_moved_behind_the_writer_of_its_stage():
    assert Placement((0, 0), (0, 1)) == nearest_legal(Placement((0, 0), (1, 0)), [(0, 1, 0)])


def test_a_reader_in_an_earlier_stage_gets_that_of_the_writer():
    assert Placement((0, 0, 0), (0, 1, 2)) == nearest_legal(Placement((1, 0, 1), (0, 1, 2)), [(0, 1, 0)])


def test_what_is_needed_in_the_next_iteration_may_run_one_stage_later():
    dependences = [(0, 1, 0), (1, 0, 1)]
    assert Placement((0, 1), (1, 0)) == nearest_legal(Placement((0, 1), (1, 0)), dependences)
    assert Placement((0, 1), (1, 0)) == nearest_legal(Placement((0, 2), (0, 1)), [(0, 1, 0), (1, 0, 1)])


@given(st.data())
def test_the_nearest_placement_keeps_all_dependences(data):
    count = data.draw(st.integers(1, 6))
    stage = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    placement = in_sequence(stage, data.draw(st.permutations(range(count))))
    numbers = st.integers(0, count - 1)
    forward = data.draw(st.lists(st.tuples(numbers, numbers).filter(lambda pair: pair[0] < pair[1]), max_size=6)) if count > 1 else []
    carried = data.draw(st.lists(st.tuples(numbers, numbers), max_size=6))
    dependences = [*((n, m, 0) for n, m in forward), *((n, m, 1) for n, m in carried)]
    made = nearest_legal(placement, dependences)
    assert all(keeps(made, each) for each in dependences)
    assert sorted(made.order) == list(range(count))
    if all(keeps(placement, each) for each in dependences):
        assert placement == made
