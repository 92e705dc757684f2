"""Orders of given stages against all possible ones."""

import dataclasses
import itertools
import random

import pytest

from tilelang.schedule.live_registers import live_registers
from tilelang.schedule.loop_graph import Edge, LoopGraph, Value, Work
from tilelang.schedule.modulo import cycles_of, is_legal
from tilelang.schedule.order_search import OrderSearch

NEVER = 10**9


def random_graph(pick: random.Random) -> LoopGraph:
    """2 to 6 statements with dependences of both distances, values in registers, and gemms that hinder warps."""
    count = pick.randint(2, 6)
    work = tuple(
        Work(pick.choice([50, 100, 400]), True, 20, 60, hinders=pick.random() < 0.3)
        if pick.random() < 0.5
        else Work(pick.choice([10, 50, 200]))
        for _ in range(count)
    )
    pairs = [pair for pair in itertools.combinations(range(count), 2) if pick.random() < 0.4]
    gemms = [n for n in range(count) if work[n].asynchronous]
    edges = [Edge(n, m, 0, waits={n, m} - {*gemms} != set() or pick.random() < 0.5) for n, m in pairs]
    edges += [Edge(m, n, 1) for n, m in pairs]
    values = tuple(Value(pick.randint(1, 9), pair, pick.random() < 0.2) for pair in pairs)
    return LoopGraph(work, tuple(edges), values)


def best(graph: LoopGraph, stage: tuple[int, ...]) -> int | None:
    """The fewest cycles of all orders that have registers; None if none has."""
    orders = [o for o in itertools.permutations(range(len(stage))) if is_legal(graph, stage, o)]
    fitting = [o for o in orders if graph.registers is None or live_registers(graph, stage, o) <= graph.registers]
    return min((cycles_of(graph, stage, order) for order in fitting), default=None)


@pytest.mark.parametrize("in_program_order", [False, True])
def test_the_search_finds_the_best_order(in_program_order: bool) -> None:
    pick = random.Random(1)
    limited = 0
    for _ in range(150):
        graph = random_graph(pick)
        late = pick.randrange(len(graph.work))
        stage = tuple(int(number >= late and pick.random() < 0.7) for number in range(len(graph.work)))
        if any(stage[e.source] > stage[e.target] + e.distance for e in graph.edges):
            continue
        if any(stage):  # then nothing hinders
            work = tuple(dataclasses.replace(each, hinders=False) for each in graph.work)
            graph = dataclasses.replace(graph, work=work)
        most = live_registers(graph, stage, range(len(stage)))
        for registers in (None, most, most - 1):
            graph = dataclasses.replace(graph, registers=registers)
            search = OrderSearch(graph, stage, in_program_order=in_program_order)
            assert search.search(NEVER, NEVER) < NEVER
            expected = best(graph, stage)
            limited += expected is None
            if expected is None:
                assert search.found is None
            else:
                assert search.found is not None
                assert expected == search.cycles == cycles_of(graph, stage, search.found)
                assert search.lower_bound <= expected
                search.search(expected, NEVER)
                assert search.found is None
    assert limited


def test_a_search_that_ends_early_takes_all_its_steps() -> None:
    graph = LoopGraph(tuple(Work(10, True, 10 * n, 60) for n in range(1, 7)), ())
    search = OrderSearch(graph, (0,) * 6)
    assert 3 == search.search(NEVER, 3)
    assert search.found is None
    assert 6 == search.search(NEVER, 6)
    assert search.found is not None


def test_another_order_replaces_the_first_one_if_it_gains_enough() -> None:
    graph = LoopGraph((Work(100), Work(10), Work(100, True, 10, 10)), (Edge(1, 2, 0),))
    cycles = []
    for gain in (0, 0.5):
        search = OrderSearch(graph, (0,) * 3, in_program_order=True)
        search.search(NEVER, NEVER, gain)
        cycles.append(search.cycles)
    assert [120, 220] == cycles
