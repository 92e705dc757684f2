"""What barriers order, and what nothing orders."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.sim.clocks import AGENTS, Clocks


def knows(clocks, thread, other, time):
    return bool(clocks.happened_before(np.array([thread]), np.array([other]), np.array([time]))[0])


def test_a_thread_knows_what_it_did_itself():
    clocks = Clocks(4)
    assert knows(clocks, 1, 1, clocks.now)


def test_nobody_knows_what_others_do_without_meeting():
    clocks = Clocks(4)
    assert not knows(clocks, 0, 1, clocks.now)


def test_all_know_everything_after_a_meeting_of_the_block():
    clocks = Clocks(4)
    time = clocks.now
    clocks.synchronize_all()
    assert knows(clocks, 0, 1, time)
    assert not knows(clocks, 0, 1, clocks.now)


def test_a_meeting_of_some_teaches_only_those():
    clocks = Clocks(4)
    time = clocks.now
    clocks.synchronize(np.array([0, 1]))
    assert knows(clocks, 0, 1, time)
    assert not knows(clocks, 2, 1, time)


def test_knowledge_is_handed_on():
    clocks = Clocks(4)
    time = clocks.now
    clocks.synchronize(np.array([0, 1]))
    clocks.synchronize(np.array([1, 2]))
    assert knows(clocks, 2, 0, time)


def test_one_side_may_release_and_the_other_acquire():
    clocks = Clocks(4)
    before = clocks.now
    known = clocks.release(np.array([0]))
    after = clocks.now
    clocks.acquire(np.array([3]), known)
    assert knows(clocks, 3, 0, before)
    assert not knows(clocks, 3, 0, after)
    assert not knows(clocks, 0, 3, before)


def test_others_may_learn_where_a_thread_is_and_nothing_of_its_accesses():
    clocks = Clocks(4)
    time, here = clocks.now, np.array([0])
    got_there = clocks.moment(here)
    clocks.acquire(np.array([3]), clocks.release(here, accesses=False))
    assert not knows(clocks, 3, 0, time)
    assert got_there(clocks.release(np.array([3])))
    assert not got_there(clocks.release(np.array([2])))


def test_a_moment_is_before_what_is_released_later():
    clocks = Clocks(4)
    before = clocks.release(np.array([0, 1]))
    got_there = clocks.moment(np.array([1, 2]))
    assert not got_there(before)
    assert not got_there(clocks.release(np.array([3])))
    assert got_there(clocks.release(np.array([1]))), "one of the threads is enough"
    clocks.synchronize_all()
    assert got_there(clocks.release(np.array([3])))


def test_updates_of_one_element_order_their_threads():
    clocks = Clocks(4)
    time = clocks.now
    clocks.acquire_release("element", 0)
    assert not knows(clocks, 1, 0, time)
    clocks.acquire_release("element", 1)
    assert knows(clocks, 1, 0, time)
    clocks.acquire_release("another", 2)
    assert not knows(clocks, 2, 0, time)


def test_a_new_block_knows_what_came_before():
    clocks = Clocks(2)
    clocks.synchronize(np.array([0]))
    time = clocks.now
    clocks.begin_block()
    assert knows(clocks, 1, 0, time)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 4), st.sets(st.integers(0, 4), min_size=1)), max_size=20))
def test_the_clocks_agree_with_sets_of_known_events(steps):
    """Model: each thread carries the set of accesses that it knows; an int is an access, a set is a meeting."""
    clocks, known, events = Clocks(5), [set() for _ in range(5)], []
    for step in steps:
        if isinstance(step, int):
            events.append((step, clocks.now))
            known[step].add(len(events) - 1)
        elif len(step) == 5:
            clocks.synchronize_all()
            known = [set.union(*known) for _ in range(5)]
        else:
            clocks.synchronize(np.array(sorted(step)))
            union = set.union(*[known[t] for t in step])
            for thread in step:
                known[thread] = set(union)
    for number, (thread, time) in enumerate(events):
        for other in range(5):
            assert (number in known[other]) == knows(clocks, other, thread, time)


def test_the_end_of_an_engines_work_is_learned_by_its_agent_alone():
    clocks = Clocks(4)
    one, other = clocks.agent("one"), clocks.agent("other")
    assert one == clocks.agent("one") != other
    time = clocks.now
    clocks.acquire(np.array([2]), clocks.release_agent(one))
    assert knows(clocks, 2, one, time)
    assert not knows(clocks, 2, other, time)
    assert not knows(clocks, 1, one, time)
    assert not knows(clocks, 2, 0, time), "what threads did is not learned from an engine"


def test_agents_beyond_those_there_are_share():
    clocks = Clocks(4)
    numbers = [clocks.agent(key) for key in range(AGENTS + 1)]
    assert AGENTS == len(set(numbers))
    assert numbers[0] == numbers[-1]
    clocks.begin_block()
    assert clocks.agent("new") == numbers[0]


def test_what_a_thread_knows():
    clocks = Clocks(4)
    clocks.synchronize_all()
    time = clocks.now
    clocks.synchronize(np.array([0, 1]))
    known = clocks.vector_clock(0)
    assert (clocks.now, time, clocks.floor) == (known[0], known[1], known[2])
    assert clocks.tick() < clocks.now


def test_one_of_several_threads_may_know_all_that_was_released():
    clocks = Clocks(4)
    known = clocks.release(np.array([2, 3]))
    assert not clocks.has_observed(np.array([0, 1]), known)
    assert not clocks.has_observed(np.array([3]), known)  # itself, but not the other
    clocks.acquire(np.array([1]), known)
    assert clocks.has_observed(np.array([0, 1]), known)
    assert not clocks.has_observed(np.array([0]), known)
    clocks.synchronize_all()
    assert clocks.has_observed(np.array([0]), known)


def test_the_end_of_an_engines_work_tells_how_far_its_thread_had_come():
    clocks = Clocks(4)
    released = clocks.release(np.array([1]))
    clocks.acquire(np.array([2]), released)
    time, causes = clocks.now, clocks.causes(2)
    clocks.tick()
    clocks.acquire(np.array([0]), clocks.release_agent(clocks.agent("copy"), causes))
    assert clocks.has_observed(np.array([0]), released)
    assert not knows(clocks, 0, 2, time) and not knows(clocks, 0, 1, 1)
