"""The timeline of a software pipeline as people read it."""

from tilelang.schedule.explain import explained
from tilelang.schedule.loop_graph import Edge, LoopGraph, Work
from tilelang.schedule.modulo import modulo_schedule


def test_units_letters_and_late_statements_are_shown():
    gemm = Work(1024, asynchronous=True, issue=20, latency=60)
    work = (gemm, Work(1472), Work(4), Work(128), gemm)
    forward = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)]
    edges = tuple(edge for n, m in forward for edge in (Edge(n, m, 0), Edge(m, n, 1)))
    graph = LoopGraph(work, edges)
    text = explained(graph, modulo_schedule(graph), [f"line {10 + n}" for n in range(5)])
    assert text.splitlines() == [
        "software-pipelined in 2 stages: by estimate an iteration takes 2688 cycles instead of 3772 with a wait behind "
        "each gemm, and keeps the matrix unit busy for 2048",
        "      matrix unit |AAAAAAAAAAAAAAAAAAAAAAAAEEEEEEEEEEEEEEEEEEEEEEEEE...............|",
        "      warps       |..........................bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbddd|",
        "      A line 10, b line 11, c line 12, d line 13, E line 14 of the iteration before",
    ]
