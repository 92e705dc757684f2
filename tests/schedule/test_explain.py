"""The timeline of a software pipeline as people read it, and as a picture."""

from xml.etree import ElementTree

from tilelang.errors import Loc
from tilelang.ir.timeline import Timeline, TimelineSpan
from tilelang.schedule.explain import ProducerLoad, program_order, timeline, timeline_text, timelines_svg
from tilelang.schedule.loop_graph import Edge, LoopGraph, Work
from tilelang.schedule.modulo import ModuloSchedule, modulo_schedule
from tilelang.schedule.prefetch import copies_first

GEMM = Work(1024, asynchronous=True, issue=20, latency=60)
COPY = Work(0, prefetched=True)
LOC = Loc("program.py", 9)


def attention():
    work = (GEMM, Work(1472), Work(4), Work(128), GEMM)
    forward = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)]
    edges = tuple(edge for n, m in forward for edge in (Edge(n, m, 0), Edge(m, n, 1)))
    graph = LoopGraph(work, edges)
    return timeline(graph, modulo_schedule(graph), [f"line {10 + n}" for n in range(5)], LOC)


def gemm():
    edges = tuple(edge for copy in (0, 1) for edge in (Edge(copy, 2, 0), Edge(2, copy, 3)))
    graph = LoopGraph((COPY, COPY, Work(500)), edges)
    return timeline(graph, copies_first(graph), ["line 1", "line 2", "line <3>"])


def test_units_letters_and_late_statements_are_shown():
    assert timeline_text(attention()).splitlines() == [
        "software-pipelined in 2 stages: by estimate an iteration takes 2688 cycles instead of 3772 with a wait behind "
        "each gemm, and keeps the matrix unit busy for 2048",
        "      matrix unit |AAAAAAAAAAAAAAAAAAAAAAAAEEEEEEEEEEEEEEEEEEEEEEEEE...............|",
        "      warps       |..........................bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbddd|",
        "      A line 10, b line 11, c line 12, d line 13, E line 14 of the iteration before",
    ]


def test_a_loop_in_program_order_tells_what_it_keeps_busy():
    alone = LoopGraph((GEMM,), ())
    assert timeline_text(timeline(alone, program_order(alone), ["line 1"])).splitlines()[:2] == [
        "in program order: by estimate an iteration keeps the matrix unit busy for 1024 cycles",
        "      matrix unit |AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA|",
    ]
    chain = LoopGraph((GEMM, Work(1500)), (Edge(0, 1, 0), Edge(1, 0, 1)))
    assert (
        "in program order: by estimate an iteration takes 2584 cycles, and keeps the warps busy for 1520 cycles"
        == timeline(chain, program_order(chain), ["line 1", "line 2"]).title
    )


def test_a_gemm_in_flight_is_in_the_title():
    made = timeline(LoopGraph((GEMM,), ()), ModuloSchedule((0,), (0,), 1100, 1), ["line 1"])
    how = "in program order, with 1 gemm in flight"
    assert f"{how}: by estimate an iteration takes 1100 cycles, and keeps the matrix unit busy for 1024 cycles" == made.title


def test_copies_stand_where_they_are_issued():
    assert timeline_text(gemm()).splitlines() == [
        "copies run 2 iterations ahead: by estimate an iteration keeps the warps busy for 500 cycles",
        "      copies |AB..............................................................|",
        "      warps  |cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc|",
        "      A line 1 (2 iterations ahead), B line 2 (2 iterations ahead), c line <3>",
    ]


def loads(*readers, cycles=300, versions=2):
    return [ProducerLoad(f"line {n}", frozenset(each), cycles, 900, versions) for n, each in enumerate(readers, 3)]


def test_a_producer_fills_a_stage_as_soon_as_its_last_reader_is_done():
    chain = LoopGraph((GEMM, Work(1500)), (Edge(0, 1, 0), Edge(1, 0, 1)))
    made = timeline(
        chain, program_order(chain), ["line 1", "line 2"], LOC, loads([0], [0]), ("consumer 1", "consumer 2")
    )
    assert timeline_text(made).splitlines() == [
        "in program order: by estimate an iteration takes 2584 cycles, and keeps the warps busy for 1520 cycles",
        "      producer    |.........................CCCCCCCCDDDDDDD........................|",
        "      matrix unit |AAAAAAAAAAAAAAAAAAAAAAAAA.......................................|",
        "      consumer 1  |...........................bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb|",
        "      consumer 2  |~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~|",
        "      A line 1, b line 2, C line 3 (2 iterations ahead, there after 900 of 4144 cycles), "
        "D line 4 (2 iterations ahead, there after 900 of 3844 cycles), ~ another tile, or a wait for it",
    ]


def test_loads_that_take_longest_limit_a_loop_and_reach_into_the_next_iteration():
    alone = LoopGraph((GEMM,), ())
    made = timeline(alone, program_order(alone), ["line 1"], LOC, loads([0], [0], cycles=700))
    assert "in program order: by estimate an iteration keeps the producer busy for 1400 cycles" == made.title
    assert [("B", 0, 700), ("C", 700, 1024), ("C", 0, 376)] == [
        (span.letter, span.start, span.end) for span in made.spans if span.unit == "producer"
    ]


def test_a_tile_of_two_stages_has_one_iteration_less_to_arrive():
    graph = LoopGraph((Work(100), Work(100)), ())
    spread = ModuloSchedule((0, 1), (0, 1), 200)
    both = timeline(graph, spread, ["line 1", "line 2"], LOC, loads([0, 1], versions=3)).spans[2]
    assert "line 3 (3 iterations ahead, there after 900 of 200 cycles)" == both.label


def test_a_timeline_has_the_spans_of_statements():
    made = attention()
    assert (2688, LOC, ("matrix unit", "warps")) == (made.cycles, made.loc, made.units)
    assert TimelineSpan("matrix unit", "A", "line 10", 0, 1024) == made.spans[0]
    assert TimelineSpan("warps", "b", "line 11", 1084, 2556) == made.spans[1]


def test_a_picture_has_a_bar_for_each_statement_and_its_cycles():
    root = ElementTree.fromstring(timelines_svg([attention(), gemm()]))
    name = "{http://www.w3.org/2000/svg}"
    texts = [each.text for each in root.iter(f"{name}text")]
    titles = [each.text for each in root.iter(f"{name}title")]
    assert ["line 10", "line 14 of the iteration before", "line 11", "line 12", "line 13"] == titles[:5]
    assert ["line 1 (2 iterations ahead)", "line 2 (2 iterations ahead)", "line <3>"] == titles[5:]
    assert "line 9: software-pipelined in 2 stages: by estimate an iteration takes 2688 cycles instead of 3772 with a" in texts[0]
    assert "A line 10: cycles 0 to 1024" in texts
    assert "c line <3>: cycles 0 to 500" in texts
    assert {"0", "500", "1000", "1500", "2000", "2500", "100", "400"} <= set(texts)
    _, second = root.findall(f"{name}g")
    assert int(second.attrib["transform"][len("translate(0,") : -1]) < int(root.attrib["height"])


def test_a_loop_without_work_is_drawn_too():
    ElementTree.fromstring(timelines_svg([Timeline("nothing", ("warps",), (), 0)]))
