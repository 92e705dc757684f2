"""The order of warps: any that is ready, the same for the same seed, and an account of who waits."""

import random

import pytest

from tilelang.errors import BarrierDivergence, Deadlock, Loc, OutOfBounds
from tilelang.isa.simulated import Wait
from tilelang.sim.barriers import Barriers
from tilelang.sim.clocks import Clocks
from tilelang.sim.scheduler import Schedule


class Runner:
    def __init__(self, index):
        self.index, self.rank = index, 0
        self.loc = Loc("kernel.py", 10 + index)


def run(programs, seed=0, held_back=None):
    """Runs one generator function per warp; each gets a list that all share."""
    trace = []
    runners = [Runner(i) for i in range(len(programs))]
    barriers = Barriers([], Clocks(len(programs) * 32, warp_size=32))
    chosen = random.Random(seed)
    assert Schedule(runners, lambda w: programs[w.index](trace), chosen, [barriers], held_back=held_back).run()
    return trace


def talker(name):
    def program(trace):
        for step in range(3):
            trace.append((name, step))
            yield Wait("nothing", lambda: True)

    return program


def test_every_warp_runs_to_its_end():
    trace = run([talker("a"), talker("b")])
    assert 6 == len(trace)
    assert [0, 1, 2] == [step for name, step in trace if name == "a"]


def test_the_same_seed_gives_the_same_order():
    programs = [talker(name) for name in "abcd"]
    assert run(programs, 3) == run(programs, 3)
    assert 1 < len({tuple(run(programs, seed)) for seed in range(8)})


def test_a_warp_waits_until_it_is_ready():
    def first(trace):
        yield Wait("the other", lambda: "other" in trace)
        trace.append("first")

    def second(trace):
        yield Wait("nothing", lambda: True)
        trace.append("other")

    for seed in range(4):
        assert ["other", "first"] == run([first, second], seed)


def test_a_warp_that_is_held_back_runs_only_where_no_other_can():
    programs = [talker(name) for name in "abc"]
    for place, name in enumerate("abc"):
        assert [name] * 3 == [who for who, _ in run(programs, seed=place, held_back=place)[6:]]

    def first(trace):
        yield Wait("the other", lambda: ("b", 1) in trace)
        trace.append("first")

    trace = run([first, talker("b")], held_back=1)
    assert trace.index("first") == trace.index(("b", 1)) + 1, "it goes on as soon as the first one waits for it alone"


def test_seeds_draw_whether_a_warp_is_held_back_and_which():
    programs = [talker(name) for name in "abc"]
    ends = {"".join(name for name, _ in run(programs, seed)[6:]) for seed in range(40)}
    assert {"aaa", "bbb", "ccc"} < ends


def test_a_warp_that_polls_does_not_keep_one_that_is_held_back_from_running():
    def polls(trace):
        while "done" not in trace:
            yield Wait("the scheduler", lambda: True, polls=True)
        trace.append("seen")

    def slow(trace):
        yield Wait("nothing", lambda: True)
        trace.append("done")

    for seed in range(4):
        assert ["done", "seen"] == run([polls, slow], seed, held_back=1)


def test_a_deadlock_names_every_wait():
    def stuck(trace):
        yield Wait("a bus", lambda: False)

    def fine(trace):
        yield Wait("nothing", lambda: True)

    with pytest.raises(Deadlock) as error:
        run([stuck, fine, stuck])
    assert "warps 0, 2 wait forever" == error.value.message
    assert [("warp 0 waits for a bus", 10), ("warp 2 waits for a bus", 12)] == [
        (note.text, note.loc.line) for note in error.value.notes
    ]
    assert 10 == error.value.loc.line


def test_an_error_leaves_with_the_line_of_its_warp():
    def fails(trace):
        yield Wait("nothing", lambda: True)
        raise OutOfBounds("too far")

    with pytest.raises(OutOfBounds) as error:
        run([fails])
    assert 10 == error.value.loc.line


def test_waiting_for_a_warp_that_has_ended_is_divergence(threads):
    with threads.kernel(1, threads=64):
        with threads.branch(threads.thread >= 32):
            threads.sync()
    with pytest.raises(BarrierDivergence):
        threads.simulate()
