"""Copies of pipelined loops stand where they get the most time for a barrier, as far ahead as their versions allow."""

import pytest

from tilelang.schedule.loop_graph import Edge, LoopGraph, Work
from tilelang.schedule.modulo import is_legal, modulo_schedule
from tilelang.schedule.prefetch import copies_first, pipeline_schedule

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
    assert ((0, 0, ahead), (0, 1, 2)) == placed(pipeline_schedule(loop))
    assert is_legal(loop, (0, 0, ahead), (0, 1, 2))


def test_each_tile_is_refilled_behind_its_gemm_where_another_one_runs_meanwhile():
    loop = graph([COPY, Work(500), Work(800), COPY, Work(500)], used(0, 1, versions=2), used(3, 4, versions=2))
    made = pipeline_schedule(loop)
    assert ((0, 2, 2, 0, 2), (1, 0, 2, 4, 3)) == placed(made)
    assert is_legal(loop, made.stage, made.order)
    assert 1800 == made.cycles
    assert ((0, 1, 1, 0, 1), (0, 3, 1, 2, 4)) == placed(copies_first(loop))


def test_tiles_that_most_of_an_iteration_uses_are_not_worth_a_barrier():
    loop = graph([COPY, COPY, Work(500), Work(500)], used(0, 2, 3, versions=2), used(1, 3, versions=2))
    assert ((0, 0, 1, 1), (0, 1, 2, 3)) == placed(pipeline_schedule(loop))


def test_with_many_versions_copies_have_time_enough():
    loop = graph([COPY, Work(500), Work(800), COPY, Work(500)], used(0, 1, versions=6), used(3, 4, versions=6))
    assert ((0, 5, 5, 0, 5), (0, 3, 1, 2, 4)) == placed(pipeline_schedule(loop))


@pytest.mark.parametrize("versions", [1, 2])
def test_copies_follow_what_empties_their_tiles_at_the_beginning_in_one_place(versions):
    loop = graph([COPY, Work(9), COPY, Work(9), Work(500)], used(0, 1, versions=versions), used(2, 3, versions=versions))
    assert ((0, versions, 0, versions, versions), (1, 3, 0, 2, 4)) == placed(pipeline_schedule(loop))


def test_what_only_copies_need_is_loaded_an_iteration_earlier():
    index = [Edge(0, 1, 0), Edge(1, 0, 1)]
    loop = graph([Work(9), COPY, Work(500)], index, used(1, 2, versions=2))
    made = pipeline_schedule(loop)
    assert ((0, 1, 2), (1, 0, 2)) == placed(made)
    assert is_legal(loop, made.stage, made.order)


def test_a_loop_without_copies_has_the_schedule_of_its_statements():
    loop = graph([Work(500), Work(500, asynchronous=True, issue=20, latency=60)])
    assert modulo_schedule(loop) == pipeline_schedule(loop)
