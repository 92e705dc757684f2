"""When the statements of an iteration begin and end, one after another."""

import dataclasses

from tilelang.schedule.iteration_timeline import IterationTimeline, Span
from tilelang.schedule.loop_graph import Edge, LoopGraph, Work

GEMM = Work(100, asynchronous=True, issue=10, latency=5)
# 0 computes what 1 and 2 multiply, 3 waits for 1
GRAPH = LoopGraph((Work(50), GEMM, GEMM, Work(20)), (Edge(0, 1, 0), Edge(0, 2, 0), Edge(1, 3, 0), Edge(3, 1, 1)))


def test_the_unit_runs_beside_the_warps_until_these_wait() -> None:
    timeline = IterationTimeline(GRAPH, (0,) * 4)
    assert [0] == timeline.ready()
    for number in (0, 1, 2):
        timeline.append(number)
    assert [3] == timeline.ready()
    assert timeline.waits(3)
    assert 155 == timeline.start(3)  # the end of 1 on the unit, and its latency
    timeline.append(3)
    assert [Span(0, 50), Span(50, 150), Span(150, 250), Span(155, 175)] == [timeline.span(n) for n in range(4)]
    assert (175, 250, 255) == (timeline.warps, timeline.unit, timeline.end)


def test_a_statement_that_is_removed_leaves_nothing() -> None:
    timeline = IterationTimeline(GRAPH, (0,) * 4)
    timeline.append(0)
    before = timeline.times(), timeline.placed, timeline.ready()
    timeline.append(1)
    assert not timeline.waits(2)
    timeline.pop()
    assert before == (timeline.times(), timeline.placed, timeline.ready())
    assert [0] == timeline.order


def test_a_statement_of_the_iteration_before_need_not_wait_for_what_comes_later() -> None:
    timeline = IterationTimeline(GRAPH, (0, 0, 0, 1))
    assert [0, 3] == timeline.ready()  # the gemm of the iteration before is done
    assert timeline.start(3) == 0


def test_times_are_those_that_others_wait_for() -> None:
    timeline = IterationTimeline(GRAPH, (0,) * 4)
    for number in (0, 1, 2):
        timeline.append(number)
    assert (70, 250, 255, 155) == timeline.times()
    timeline.append(3)
    assert (175, 250, 255) == timeline.times()


def test_statements_hinder_those_that_run_beside_them() -> None:
    hindering = dataclasses.replace(GEMM, hinders=True)
    timeline = IterationTimeline(LoopGraph((hindering, Work(30), Work(200)), ()), (0,) * 3)
    timeline.append(0)
    assert [Span(0, 100)] == timeline.hindering()
    timeline.append(1)
    assert 10 + 2 * 30 == timeline.warps
    timeline.append(2)
    assert [] == timeline.hindering()
