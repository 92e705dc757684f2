"""Copies of pipelined loops come where threads wait for each other in any case, as far ahead as their versions allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.schedule.loop_graph import Edge, LoopGraph, Work
from tilelang.schedule.modulo import is_legal
from tilelang.schedule.prefetch import (
    PrefetchCosts,
    copies_after_users,
    copies_after_waits,
    copies_first,
    copies_together,
    prefetch_schedule,
)

COPY = Work(0, issue=100, prefetched=True)
COSTS = PrefetchCosts(latency=900, barrier=30)


def used(tile, *users, versions):
    """The edges of a tile that a copy fills."""
    return [edge for user in users for edge in (Edge(tile, user, 0), Edge(user, tile, versions))]


def graph(work, *edges, loading=(), exchanging=()):
    made = tuple(edge for group in edges for edge in group)
    return LoopGraph(tuple(work), made, loading=frozenset(loading), exchanging=frozenset(exchanging))


def attention(softmax=800, gemm=500, versions=2):
    """Copies of K and V; a gemm with K, exponentials of the scores, and a gemm with V."""
    work = [COPY, COPY, Work(gemm), Work(softmax), Work(gemm)]
    chain = [Edge(2, 3, 0), Edge(3, 4, 0)]
    tiles = used(0, 2, versions=versions), used(1, 4, versions=versions)
    return graph(work, chain, *tiles, loading=(2, 4))


def placed(made):
    return made.stage, made.order


@pytest.mark.parametrize("versions", [1, 2, 3, 5])
def test_copies_for_one_gemm_run_ahead_of_it(versions):
    loop = graph([COPY, COPY, Work(500)], used(0, 2, versions=versions), used(1, 2, versions=versions), loading=(2,))
    ahead = versions - 1
    assert ((0, 0, ahead), (0, 1, 2)) == placed(copies_first(loop)) == placed(prefetch_schedule(loop, COSTS))
    assert is_legal(loop, (0, 0, ahead), (0, 1, 2))


@pytest.mark.parametrize("versions", [2, 3])
def test_each_tile_is_refilled_after_the_wait_for_the_other(versions):
    loop = attention(versions=versions)
    made = copies_after_waits(loop)
    assert ((0, 1, versions, versions, versions), (2, 1, 3, 4, 0)) == placed(made)
    assert is_legal(loop, made.stage, made.order)
    assert ((0, 0, *[versions - 1] * 3), (0, 1, 2, 3, 4)) == placed(copies_first(loop))


@pytest.mark.parametrize("versions", [2, 3])
def test_copies_behind_the_first_gemm_share_a_wait_and_time_without_loads(versions):
    loop = attention(versions=versions)
    made = copies_together(loop)
    assert ((0, 0, *[versions - 1] * 3), (2, 0, 1, 3, 4)) == placed(made)
    assert is_legal(loop, made.stage, made.order)
    assert made == prefetch_schedule(loop, COSTS)


def test_tiles_of_one_version_are_refilled_apart():
    loop = attention(versions=1)
    assert copies_first(loop) == copies_together(loop)
    assert copies_after_waits(loop) == prefetch_schedule(loop, COSTS)


def test_copies_stay_first_where_the_next_load_waits_for_them_wherever_they_come():
    """Two gemms with nothing between them: a further wait gains nothing."""
    tiles = used(0, 2, versions=4), used(1, 3, versions=4)
    loop = graph([COPY, COPY, Work(600), Work(600)], [Edge(2, 3, 0)], *tiles, loading=(2, 3))
    assert copies_first(loop) == prefetch_schedule(loop, COSTS)


def test_copies_stay_first_where_later_ones_would_not_be_there_in_time():
    """Two products with one operand in common, of which only one is awaited apart: an iteration is short."""
    tiles = used(0, 3, 4, versions=2), used(1, 3, versions=2), used(2, 4, versions=2)
    loop = graph([COPY] * 3 + [Work(250), Work(250)], *tiles, loading=(3, 4))
    assert copies_first(loop) == prefetch_schedule(loop, COSTS)
    assert 2 * 500 > COSTS.latency > 500 + 250


def test_what_needs_no_tile_gives_copies_no_time():
    """A statement between copies and the first gemm counts only if it computes with a tile."""
    tiles = used(0, 3, versions=2), used(1, 5, versions=2)
    work = [COPY, COPY, Work(800), Work(500), Work(800), Work(500)]
    loop = graph(work, [Edge(3, 4, 0), Edge(4, 5, 0)], *tiles, loading=(3, 5))
    assert copies_together(loop) == prefetch_schedule(loop, COSTS)


@pytest.mark.parametrize("exchanging,wins", [((), False), ((3, 4), True)])
def test_waits_at_barriers_that_are_there_in_any_case_cost_nothing(exchanging, wins):
    tiles = used(0, 2, versions=2), used(1, 3, 4, versions=1)
    work = [COPY, Work(0, issue=20, prefetched=True), Work(700), Work(700), Work(700)]
    chain = [Edge(2, 3, 0), Edge(3, 4, 0)]
    loop = graph(work, chain, *tiles, loading=(2, 4), exchanging=exchanging)
    assert wins == (prefetch_schedule(loop, PrefetchCosts(900, 110)) == copies_after_waits(loop))


@pytest.mark.parametrize("versions", [1, 2])
def test_copies_follow_what_empties_their_tiles_at_the_beginning_in_one_place(versions):
    loop = graph([COPY, Work(9), COPY, Work(9), Work(500)], used(0, 1, versions=versions), used(2, 3, versions=versions))
    assert ((0, versions, 0, versions, versions), (1, 3, 0, 2, 4)) == placed(copies_after_users(loop))


def test_what_only_copies_need_is_loaded_an_iteration_earlier():
    index = [Edge(0, 1, 0), Edge(1, 0, 1)]
    loop = graph([Work(9), COPY, Work(500)], index, used(1, 2, versions=2))
    made = prefetch_schedule(loop, COSTS)
    assert ((0, 1, 2), (1, 0, 2)) == placed(made)
    assert is_legal(loop, made.stage, made.order)


def test_a_loop_without_copies_keeps_its_order():
    loop = graph([Work(9), Work(9)], [Edge(0, 1, 0)])
    assert ((0, 0), (0, 1)) == placed(prefetch_schedule(loop, COSTS))


@st.composite
def loops(draw):
    """A graph of statements in a chain, some of which are copies into tiles that later statements use."""
    count = draw(st.integers(1, 7))
    copies = draw(st.sets(st.integers(0, count - 1), min_size=1))
    versions = draw(st.integers(1, 4))
    work = [COPY if n in copies else Work(draw(st.sampled_from([1, 50, 400]))) for n in range(count)]
    edges, others = [], [n for n in range(count) if n not in copies]
    for copy in sorted(copies):
        later = [n for n in others if n > copy]
        edges.append(used(copy, *draw(st.sets(st.sampled_from(later)) if later else st.just(())), versions=versions))
    loading = draw(st.sets(st.sampled_from(others))) if others else ()
    return versions, copies, graph(work, *edges, loading=loading)


@given(loops(), st.sampled_from([copies_first, copies_together, copies_after_users, copies_after_waits, None]))
def test_schedules_of_random_loops_are_legal(drawn, place):
    versions, copies, loop = drawn
    made = prefetch_schedule(loop, COSTS) if place is None else place(loop)
    assert is_legal(loop, made.stage, made.order)
    assert sorted(made.order) == list(range(len(loop.work)))
    others = [n for n in made.order if n not in copies]
    assert others == sorted(others)
    assert made.stages <= versions + 1


@given(loops())
def test_copies_after_waits_overwrite_no_tile_that_was_used_since_threads_waited(drawn):
    versions, copies, loop = drawn
    made = copies_after_waits(loop)
    users = {copy: {edge.target for edge in loop.edges if edge.source == copy} for copy in copies}
    waiting = {min(of) for of in users.values() if of}
    if made == copies_first(loop):
        return  # threads wait before it
    times = 2 * versions + 2
    executed = [(time, number) for time in range(times) for number in made.order]
    place = {each: position for position, each in enumerate(executed)}
    for copy in (copy for copy in copies if users[copy]):
        between = [made.stage[n] - made.stage[copy] + (place[0, n] > place[0, copy]) for n in users[copy]]
        assert versions == max(between)  # as many as the expansion makes
        for time in range(versions, times):
            old = time - made.stage[copy] - versions  # the iteration whose tile it overwrites
            if old >= 0:
                last = max(place[old + made.stage[n], n] for n in users[copy])
                assert any(number in waiting for _, number in executed[last + 1 : place[time, copy]])


def test_copies_stay_first_where_the_only_wait_comes_before_the_last_user():
    """A gemm with both tiles, whose result is scaled: copies after it would need a barrier."""
    tiles = used(0, 2, versions=3), used(1, 2, versions=3)
    loop = graph([COPY, COPY, Work(500), Work(500)], [Edge(2, 3, 0)], *tiles, loading=(2,))
    assert copies_first(loop) == copies_after_waits(loop) == prefetch_schedule(loop, COSTS)
