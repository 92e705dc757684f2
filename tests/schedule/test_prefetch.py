"""Copies of pipelined loops stand where they get the most time for a barrier, as far ahead as their versions allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.schedule.loop_graph import Edge, LoopGraph, Work
from tilelang.schedule.modulo import is_legal
from tilelang.schedule.prefetch import copies_after_all_users, copies_after_their_users, copies_first

COPY = Work(0, prefetched=True)


def used(tile, *users, versions):
    """The edges of a tile that a copy fills."""
    return [edge for user in users for edge in (Edge(tile, user, 0), Edge(user, tile, versions))]


def graph(work, *edges):
    return LoopGraph(tuple(work), tuple(edge for group in edges for edge in group))


def placed(made):
    return made.stage, made.order


@pytest.mark.parametrize("versions", [1, 2, 3, 5])
def test_copies_for_one_gemm_run_ahead_of_it(versions):
    loop = graph([COPY, COPY, Work(500)], used(0, 2, versions=versions), used(1, 2, versions=versions))
    ahead = versions - 1
    assert ((0, 0, ahead), (0, 1, 2)) == placed(copies_first(loop))
    assert is_legal(loop, (0, 0, ahead), (0, 1, 2))


def test_each_tile_is_refilled_behind_its_gemm_where_another_one_runs_meanwhile():
    loop = graph([COPY, Work(500), Work(800), COPY, Work(500)], used(0, 1, versions=2), used(3, 4, versions=2))
    made = copies_after_their_users(loop)
    assert ((0, 2, 2, 0, 2), (1, 0, 2, 4, 3)) == placed(made)
    assert is_legal(loop, made.stage, made.order)
    assert 1800 == made.cycles
    assert ((0, 1, 1, 0, 1), (0, 3, 1, 2, 4)) == placed(copies_first(loop))


@pytest.mark.parametrize("versions", [1, 2])
def test_copies_follow_what_empties_their_tiles_at_the_beginning_in_one_place(versions):
    loop = graph([COPY, Work(9), COPY, Work(9), Work(500)], used(0, 1, versions=versions), used(2, 3, versions=versions))
    assert ((0, versions, 0, versions, versions), (1, 3, 0, 2, 4)) == placed(copies_after_all_users(loop))


def test_what_only_copies_need_is_loaded_an_iteration_earlier():
    index = [Edge(0, 1, 0), Edge(1, 0, 1)]
    loop = graph([Work(9), COPY, Work(500)], index, used(1, 2, versions=2))
    made = copies_first(loop)
    assert ((0, 1, 2), (1, 0, 2)) == placed(made)
    assert is_legal(loop, made.stage, made.order)


@given(st.data())
def test_schedules_of_random_loops_are_legal(data):
    count = data.draw(st.integers(1, 7))
    copies = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    versions = data.draw(st.integers(1, 4))
    work = [COPY if n in copies else Work(data.draw(st.sampled_from([1, 50, 400]))) for n in range(count)]
    edges = []
    for copy in sorted(copies):
        later = [n for n in range(copy + 1, count) if n not in copies]
        edges.append(used(copy, *data.draw(st.sets(st.sampled_from(later)) if later else st.just(())), versions=versions))
    place = data.draw(st.sampled_from([copies_first, copies_after_all_users, copies_after_their_users]))
    made = place(loop := graph(work, *edges))
    assert is_legal(loop, made.stage, made.order)
    assert sorted(made.order) == list(range(count))
    others = [n for n in made.order if n not in copies]
    assert others == sorted(others)
    assert made.stages <= versions + 1
