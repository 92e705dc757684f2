"""The schedules of random loop graphs against the optimum, and of the graphs of known kernels."""

import dataclasses
import itertools
import random
from operator import eq, truediv

import pytest
from loop_optimum import interval, optimum

from tilelang.schedule import modulo
from tilelang.schedule.loop_graph import Edge, LoopGraph, Work
from tilelang.schedule.modulo import (
    MIN_GAIN,
    MIN_REORDER_GAIN,
    ModuloSchedule,
    cycles_of,
    is_legal,
    longest_recurrence,
    modulo_schedule,
    schedule_of_runs,
)
from tilelang.schedule.order_search import OrderSearch

ISSUE, LATENCY = 20, 60


def gemm(cycles: int) -> Work:
    return Work(cycles, asynchronous=True, issue=ISSUE, latency=LATENCY)


def conflicts(*users: tuple[int, bool]) -> list[Edge]:
    """The edges between the users of one storage: (number, whether it writes) in program order."""
    pairs = [(n, m) for n, w in users for m, v in users if n < m and (w or v)]
    return [edge for n, m in pairs for edge in (Edge(n, m, 0), Edge(m, n, 1))]


def random_graph(seed: int, least: int = 2, most: int = 8) -> LoopGraph:
    """So many statements that use as many storages, about as in programs."""
    pick = random.Random(seed)
    count = pick.randint(least, most)
    cycles = [pick.choice([50, 100, 200, 400, 800]) for _ in range(count)]
    work = tuple(gemm(each) if pick.random() < 0.4 else Work(each) for each in cycles)
    edges: dict[Edge, None] = {}
    for _ in range(pick.randint(1, count + 2)):
        users = sorted(pick.sample(range(count), min(count, pick.randint(2, 3))))
        writers = pick.sample(users, pick.randint(1, len(users)))
        edges.update(dict.fromkeys(conflicts(*((user, user in writers) for user in users))))
    return LoopGraph(work, tuple(edges))


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("first", range(0, 240, 40))
def test_random_graphs_are_scheduled_as_well_as_by_the_optimum(first: int) -> None:
    for seed in range(first, first + 40):
        graph = random_graph(seed)
        made = modulo_schedule(graph)
        assert is_legal(graph, made.stage, made.order), seed
        assert sorted(made.order) == list(range(len(graph.work))), seed
        # two choices, of stages and of an order, are each as good as any within the tolerance
        assert made.cycles <= optimum(graph) / (1 - MIN_GAIN), seed


MANY = range(5000, 5200)
"""Seeds of graphs of 9 to 25 statements."""
OPTIMA = (
    4250, 6320, 3600, 4100, 2550, 2500, 3240, 4160, 1560, 3380, 3830, 3670, 2880, 5590, 3860, 3160, 5140, 2260,
    2470, 3700, 5730, 3890, 2510, 6820, 4190, 3680, 3480, 3220, 3390, 3320, 4400, 4010, 4660, 5210, 4990, 2960,
    2180, 4300, 3200, 2610, 2690, 5700, 2120, 4060, 3190, 1910, 1840, 3910, 6810, 2430, 2050, 2850, 3640, 2610,
    2550, 3460, 5090, 4770, 3390, 3900, 3820, 4520, 4100, 1980, 3660, 3030, 2400, 3880, 3530, 1580, 3670, 3180,
    4530, 2470, 5800, 3110, 3150, 2900, 4220, 1850, 3950, 2220, 5000, 6820, 1350, 5160, 4440, 3980, 3460, 3280,
    5630, 3360, 3800, 3490, 3780, 2720, 6570, 3400, 1850, 4570, 5970, 4990, 2860, 4260, 5160, 5640, 3710, 5900,
    3640, 4100, 3300, 2810, 1920, 7880, 3880, 2280, 3650, 3890, 4010, 3710, 4690, 2980, 3600, 1780, 2760, 2710,
    3390, 6120, 2980, 6260, 2110, 3820, 4890, 3190, 2340, 3050, 4490, 3680, 1160, 2110, 6640, 4990, 3850, 4140,
    3430, 3500, 1740, 5460, 3590, 4270, 3310, 1960, 2200, 5500, 5160, 4060, 4650, 3820, 5120, 3960, 5410, 3910,
    3420, 2400, 4750, 3960, 2920, 4970, 5330, 3160, 4540, 2660, 3780, 2080, 5640, 1850, 1960, 3800, 4820, 4760,
    4180, 3960, 1300, 2440, 2140, 4320, 3610, 2550, 3920, 3520, 3270, 4870, 2960, 3180, 2110, 1580, 4100, 5940,
    3520, 1900,
)  # fmt: skip
"""The fewest cycles of each."""


def large_graph(seed: int) -> LoopGraph:
    return random_graph(seed, 9, 25)


@pytest.mark.slow(every=80)
@pytest.mark.parametrize("seed", MANY)
def test_the_optima_of_large_graphs_are_those_of_the_solver(seed: int) -> None:
    assert OPTIMA[seed - MANY[0]] == optimum(large_graph(seed))


def test_large_graphs_are_scheduled_as_well_as_by_the_optimum() -> None:
    for seed, fewest in zip(MANY, OPTIMA, strict=True):
        graph = large_graph(seed)
        made = modulo_schedule(graph)
        assert is_legal(graph, made.stage, made.order), seed
        assert made.cycles == cycles_of(graph, made.stage, made.order), seed
        assert made.cycles <= fewest / (1 - MIN_GAIN), seed


def test_most_large_graphs_have_the_optimum_where_a_schedule_need_not_gain_much(monkeypatch) -> None:
    monkeypatch.setattr(modulo, "MIN_GAIN", 0)
    monkeypatch.setattr(modulo, "MIN_REORDER_GAIN", 0)
    found = [modulo_schedule.__wrapped__(large_graph(seed)).cycles for seed in MANY]
    assert max(map(truediv, found, OPTIMA)) <= 1.125
    assert sum(map(eq, found, OPTIMA)) >= 0.9 * len(MANY)


def attention(matrix: int = 1024, softmax: int = 1500) -> LoopGraph:
    """S = Q K; P = softmax of S; O *= rescale; O += P V."""
    gemm_s, exp, rescale, cast, gemm_o = range(5)
    work = (gemm(matrix), Work(softmax), Work(128), Work(128), gemm(matrix))
    edges = [
        *conflicts((gemm_s, True), (exp, True), (cast, False)),
        *conflicts((exp, True), (rescale, False)),
        *conflicts((cast, True), (gemm_o, False)),
        *conflicts((rescale, True), (gemm_o, True)),
    ]
    return LoopGraph(work, tuple(edges))


def test_attention_overlaps_the_softmax_with_the_gemm_of_the_previous_iteration() -> None:
    assert ModuloSchedule((0, 0, 0, 0, 1), (0, 4, 1, 2, 3), 1024 + LATENCY + 1500 + 256) == modulo_schedule(attention())


def test_attention_whose_gemms_take_most_of_the_time_waits_for_the_second() -> None:
    made = modulo_schedule(attention(matrix=4000))
    assert (0, 0, 0, 0, 1) == made.stage
    assert 8000 + LATENCY + 256 == made.cycles


def test_a_chain_on_the_matrix_unit_alone_stays_in_program_order() -> None:
    graph = LoopGraph((gemm(500),), ())
    assert ModuloSchedule((0,), (0,), 500 + LATENCY) == modulo_schedule(graph)


def test_work_that_nothing_orders_runs_beside_a_gemm_without_another_stage() -> None:
    graph = LoopGraph((Work(500), gemm(500)), ())
    assert ModuloSchedule((0, 0), (1, 0), 500 + LATENCY) == modulo_schedule(graph)


def test_no_stages_are_tried_where_none_can_save_enough(monkeypatch) -> None:
    def searched(*_: object) -> object:
        raise AssertionError("stages are searched for")

    monkeypatch.setattr(modulo, "_in_one_stage", lambda graph, program, order: ModuloSchedule((0,) * 3, order, 0))
    monkeypatch.setattr(OrderSearch, "search", searched)
    graph = LoopGraph((gemm(100), Work(2000), Work(20)), (Edge(0, 1, 0),))
    assert (0, 0, 0) == modulo_schedule(graph).stage


def test_runs_keep_their_order_and_are_free_within() -> None:
    graph = attention()
    free = modulo_schedule(graph)
    assert free == schedule_of_runs(graph, free.stage, (0, 2, 2, 2, 1))  # the second gemm beside the first one
    assert (0, 1, 2, 3, 4) == schedule_of_runs(graph, (0,) * 5, (0, 1, 2, 3, 4)).order
    assert (0, 1, 4, 2, 3) == schedule_of_runs(graph, free.stage, (0, 1, 3, 3, 2)).order


def test_runs_of_random_graphs_keep_their_order_and_all_dependences() -> None:
    for seed in range(60):
        graph = random_graph(seed)
        free = modulo_schedule(graph)
        pick = random.Random(seed)
        ends = sorted(pick.choices(range(len(free.order) + 1), k=2))
        run = {number: sum(place >= end for end in ends) for place, number in enumerate(free.order)}
        if not is_legal(graph, free.stage, sorted(run, key=lambda number: (run[number], number))):
            continue  # the order of the program within a run breaks a dependence
        made = schedule_of_runs(graph, free.stage, [run[number] for number in range(len(run))])
        assert is_legal(graph, made.stage, made.order) and free.stage == made.stage, seed
        assert sorted(map(run.get, made.order)) == [run[number] for number in made.order], seed
        assert made.cycles == cycles_of(graph, made.stage, made.order), seed


def test_a_recurrence_through_all_statements_cannot_be_pipelined() -> None:
    graph = LoopGraph((gemm(500), Work(500)), (Edge(0, 1, 0), Edge(1, 0, 1)))
    assert 1000 + LATENCY == modulo_schedule(graph).cycles


def test_the_longest_recurrence_bounds_every_schedule():
    assert longest_recurrence(LoopGraph((gemm(500),), ())) is None
    chain = LoopGraph((gemm(500), Work(100), Work(300)), (Edge(0, 1, 0), Edge(1, 0, 1), Edge(2, 2, 1)))
    assert (Edge(1, 0, 1), 500 + LATENCY + 100) == longest_recurrence(chain)
    for seed in range(60):
        graph = random_graph(seed)
        found = longest_recurrence(graph)
        assert found is None or found[1] <= modulo_schedule(graph).cycles


def test_a_schedule_against_a_dependence_is_illegal() -> None:
    graph = attention()
    assert is_legal(graph, (0, 0, 0, 0, 1), (0, 4, 1, 2, 3))
    assert not is_legal(graph, (0, 0, 0, 0, 1), (0, 1, 2, 4, 3))  # the cast comes to an operand in use
    assert not is_legal(graph, (1, 0, 0, 0, 1), (0, 4, 1, 2, 3))


def test_a_gemm_need_not_wait_for_one_whose_sums_it_continues() -> None:
    waiting = LoopGraph((gemm(500), gemm(500)), (Edge(0, 1, 0), Edge(1, 0, 1)))
    assert 1000 + 2 * LATENCY == modulo_schedule(waiting).cycles
    chained = LoopGraph((gemm(500), gemm(500)), (Edge(0, 1, 0, waits=False), Edge(1, 0, 1)))
    assert ModuloSchedule((0, 0), (0, 1), 1000 + LATENCY) == modulo_schedule(chained)
    assert not is_legal(chained, (0, 0), (1, 0))
    both = LoopGraph(chained.work, (*chained.edges, Edge(0, 1, 0)))  # it also overwrites what the other one reads
    assert modulo_schedule(waiting).cycles == modulo_schedule(both).cycles


def test_statements_move_behind_a_gemm_within_an_iteration_for_a_small_gain_and_no_further() -> None:
    # 0 computes, 1 and 2 sum up what it gives, 3 multiplies it, 4 needs both
    edges = tuple(conflicts((0, True), (1, False), (3, False)) + conflicts((1, True), (2, True), (4, True)))
    work = (Work(2000), Work(40), Work(40), gemm(500), Work(2000))
    graph = LoopGraph(work, (*edges, *conflicts((3, True), (4, False))))
    assert ModuloSchedule((0,) * 5, (0, 3, 1, 2, 4), 4500 + LATENCY) == modulo_schedule(graph)
    assert 4580 + LATENCY > modulo_schedule(graph).cycles * (1 + MIN_REORDER_GAIN)


def test_what_warps_do_beside_a_gemm_that_hinders_them_takes_twice_as_long() -> None:
    def cycles(*lengths: int) -> int:
        """Of a gemm of 200 cycles, and of statements that need nothing of it."""
        work = (dataclasses.replace(gemm(200), hinders=True), *map(Work, lengths))
        return cycles_of(LoopGraph(work, ()), (0,) * len(work), range(len(work)))

    assert 200 + LATENCY == cycles(80)
    half = (200 - ISSUE) // 2
    assert 200 + (500 - half) == cycles(500) == cycles(40, 460)


def test_a_gemm_that_hinders_warps_comes_no_earlier_than_it_is_written() -> None:
    scores, exp, first, values, second, last = range(6)
    chain = (scores, exp, first, second, last)
    edges = [Edge(exp, values, 0), *(Edge(n, m, 0) for n, m in itertools.pairwise(chain))]
    edges += [Edge(last, n, 1) for n in range(6)]

    def order(*, hinders: bool) -> tuple[int, ...]:
        product = dataclasses.replace(gemm(500), hinders=hinders)
        work = (gemm(500), Work(500), Work(250), product, Work(250), gemm(1000))
        made = modulo_schedule(LoopGraph(work, tuple(edges)))
        assert (0,) * 6 == made.stage
        return made.order

    assert (scores, exp, values, first, second, last) == order(hinders=False)
    assert (scores, exp, first, values, second, last) == order(hinders=True)


def one_gemm(cycles: int, groups: int, in_flight: tuple[int, ...], latency: int = 150, **loads: int) -> LoopGraph:
    """A loop that is one gemm, whose sums each iteration continues."""
    work = Work(cycles, asynchronous=True, issue=ISSUE, latency=latency)
    return LoopGraph((work,), (Edge(0, 0, 1, waits=False),), groups=groups, in_flight=in_flight, **loads)


@pytest.mark.parametrize("cycles", [60, 120, 240, 480, 960])
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("in_flight", [0, 1])
def test_the_interval_of_a_gemm_is_the_optimum(cycles: int, groups: int, in_flight: int) -> None:
    graph = one_gemm(cycles, groups, (in_flight,))
    assert interval(graph, in_flight) == modulo_schedule(graph).cycles


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("in_flight", [0, 1])
def test_loads_take_no_more_than_the_estimate(stages: int, in_flight: int) -> None:
    for load_cycles in (200, 800, 2000):
        graph = one_gemm(480, 2, (in_flight,), stages=stages, load_cycles=load_cycles)
        assert interval(graph, in_flight) <= modulo_schedule(graph).cycles, load_cycles


def test_a_gemm_stays_in_flight_where_waits_are_not_under_those_of_other_warps() -> None:
    for groups, cycles, expected in ((1, 512, (1, 512)), (2, 256, (1, 256)), (2, 512, (0, 512)), (3, 384, (0, 384))):
        made = modulo_schedule(one_gemm(cycles, groups, (0, 1)))
        assert expected == (made.in_flight, made.cycles), (groups, cycles)


def test_a_gemm_in_flight_holds_a_stage_that_loads_may_need() -> None:
    loads = {"load_cycles": 800}
    assert (1, 512) == _chosen(one_gemm(512, 1, (0, 1), stages=4, **loads))
    assert (0, 662) == _chosen(one_gemm(512, 1, (0, 1), stages=3, **loads))
    assert (1, 800) == _chosen(one_gemm(512, 1, (1,), stages=3, **loads))  # as the user sets it


def _chosen(graph: LoopGraph) -> tuple[int, int]:
    made = modulo_schedule(graph)
    return made.in_flight, made.cycles
