"""The registers that a schedule keeps live, and schedules that have to do with few."""

import dataclasses

import pytest

from tilelang.schedule.live_registers import live_registers
from tilelang.schedule.loop_graph import Edge, LoopGraph, Value, Work
from tilelang.schedule.modulo import modulo_schedule

GEMM = Work(1000, asynchronous=True, issue=20, latency=60)
# S = Q K; S = f(S); P = S; O += P V
S, EXP, CAST, SUM = range(4)
PAIRS = ((S, EXP), (S, CAST), (EXP, CAST), (CAST, SUM))
EDGES = tuple(edge for n, m in PAIRS for edge in (Edge(n, m, 0), Edge(m, n, 1)))
VALUES = (Value(64, (S, EXP, CAST), False), Value(32, (CAST, SUM), False), Value(64, (SUM,), True))
GRAPH = LoopGraph((GEMM, Work(1500), Work(10), GEMM), EDGES, VALUES)


@pytest.mark.parametrize(
    "stage,order,expected",
    [
        # before the cast the scores, behind it the operand until the end of the iteration
        ((0, 0, 0, 0), (S, EXP, CAST, SUM), 64 + 64),
        # the operand of the iteration before and the scores, beside the sums
        ((0, 0, 0, 1), (S, SUM, EXP, CAST), 64 + 64 + 32),
        ((0, 0, 0, 1), (SUM, S, EXP, CAST), 64 + 64 + 32),
    ],
)
def test_values_are_live_from_their_first_write_to_the_wait_of_their_last_reader(stage, order, expected) -> None:
    assert expected == live_registers(GRAPH, stage, order)


def test_an_operand_is_held_until_the_statement_that_waits() -> None:
    # the gemm 1 reads value 0, and 3 waits for it; 2 is in between
    graph = LoopGraph(
        (Work(10), GEMM, Work(10), Work(10)),
        (Edge(0, 1, 0), Edge(1, 3, 0)),
        (Value(8, (0, 1), False), Value(4, (2, 3), False)),
    )
    assert 8 + 4 == live_registers(graph, (0,) * 4, range(4))
    assert 8 == live_registers(dataclasses.replace(graph, work=(Work(10),) * 4), (0,) * 4, range(4))


def test_orders_that_take_too_many_registers_are_left_out() -> None:
    assert (0, 0, 0, 1) == modulo_schedule(GRAPH).stage
    assert (0, 0, 0, 1) == modulo_schedule(dataclasses.replace(GRAPH, registers=160)).stage
    assert (0, 0, 0, 0) == modulo_schedule(dataclasses.replace(GRAPH, registers=159)).stage


def test_schedules_of_one_stage_may_take_more_registers_where_the_graph_says_so() -> None:
    limited = dataclasses.replace(GRAPH, registers=159, one_stage_registers=1)
    assert (0, 0, 0, 0) == modulo_schedule(limited).stage  # two stages take 160
    # the gemm 3 runs beside 2 if what it reads has a place beside what 2 reads
    graph = LoopGraph(
        (Work(10), Work(10), Work(1000), GEMM),
        (Edge(0, 2, 0), Edge(1, 3, 0)),
        (Value(64, (0, 2), False), Value(32, (1, 3), False)),
        64,
    )
    assert (0, 1, 2, 3) == modulo_schedule(graph).order
    assert (0, 1, 3, 2) == modulo_schedule(dataclasses.replace(graph, one_stage_registers=32)).order
