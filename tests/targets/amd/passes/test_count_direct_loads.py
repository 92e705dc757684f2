"""Waits for groups become waits for loads, of which there are equally many on all paths."""

import pytest
from by_hand import ThreadProgram

from tilelang.ir.expr import Const
from tilelang.ir.stmt import CallStmt, If
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.targets.amd.isa.direct_to_lds import COMMIT_DIRECT_LOADS, DIRECT_LOADS, WAIT_FOR_DIRECT_LOAD_GROUPS
from tilelang.targets.amd.isa.wait_counters import WAIT_FOR_DIRECT_LOADS
from tilelang.targets.amd.passes import count_direct_loads
from tilelang.targets.target import Target

LOAD = DIRECT_LOADS[16]


class Program(ThreadProgram):
    """A launch of a wave that loads chunks of A to a tile."""

    def __enter__(self):
        self.a = self.tensor("A", (4096,))
        self.out = self.tensor("out", (4096,))
        self._launch = self.kernel(1, threads=64)
        self._launch.__enter__()
        self.tile = self.shared("tile", (4096,))
        return self

    def __exit__(self, *given):
        return self._launch.__exit__(*given)

    def issue(self, times=1, keep=True):
        """Loads of all lanes."""
        for _ in range(times):
            target, source = self.at(self.tile, self.thread * 4), self.at(self.a, self.thread * 4)
            self.call_on(LOAD, (target, source, keep), reads=(source,), writes=(target,))

    def counted(self):
        return count_direct_loads.PASS.run(self.finish(), PassContext(target=Target("hip", "gfx950")))


def calls(func, routine):
    return [s for s in walk(func.body) if isinstance(s, CallStmt) and s.routine is routine]


def waits(func):
    assert [] == calls(func, COMMIT_DIRECT_LOADS) + calls(func, WAIT_FOR_DIRECT_LOAD_GROUPS)
    return [s.args[0].value for s in calls(func, WAIT_FOR_DIRECT_LOADS)]


@pytest.mark.parametrize(("groups", "expected"), [(0, 0), (1, 2), (2, 5), (3, 9), (4, 9)])
def test_a_wait_leaves_the_loads_of_the_newest_groups(groups, expected):
    with Program() as p:
        for times in (4, 3, 2):
            p.issue(times)
            p.call(COMMIT_DIRECT_LOADS)
        p.call(WAIT_FOR_DIRECT_LOAD_GROUPS, groups)
    assert [expected] == waits(p.counted())


def test_loads_that_no_commit_follows_are_left_in_flight():
    with Program() as p:
        p.issue(2)
        p.call(COMMIT_DIRECT_LOADS)
        p.issue(3)
        p.call(WAIT_FOR_DIRECT_LOAD_GROUPS, 0)
    assert [3] == waits(p.counted())


def pipeline(ahead, *, branch=True):
    """A loop that loads two chunks for a later iteration, after a wait for those of this one."""
    with Program() as p:
        for _ in range(ahead):
            p.issue(2)
            p.call(COMMIT_DIRECT_LOADS)
        with p.serial(0, 8) as k:
            p.call(WAIT_FOR_DIRECT_LOAD_GROUPS, ahead - 1)
            if branch:
                with p.branch(k + ahead < 8):
                    p.issue(2)
            else:
                p.issue(2)
            p.call(COMMIT_DIRECT_LOADS)
        p.call(WAIT_FOR_DIRECT_LOAD_GROUPS, 0)
    return p.counted()


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_a_pipeline_counts_the_loads_of_a_steady_state(ahead, branch):
    assert [2 * (ahead - 1), 0] == waits(pipeline(ahead, branch=branch))


def test_loads_in_branches_are_issued_in_any_case_with_a_predicate():
    made = pipeline(2)
    assert not any(isinstance(s, If) for s in walk(made.body))
    assert 2 == sum(not isinstance(s.args[2], Const) for s in calls(made, LOAD))


def test_a_path_with_fewer_loads_decides():
    with Program() as p:
        p.issue(2)
        p.call(COMMIT_DIRECT_LOADS)
        with p.branch(p.thread < 4):
            p.issue(1)
            p.store(p.out, (p.thread,), 0.0)  # which no predicate of a load covers
        p.call(COMMIT_DIRECT_LOADS)
        p.call(WAIT_FOR_DIRECT_LOAD_GROUPS, 1)
    assert [0] == waits(p.counted())


def test_a_loop_of_unknown_length_counts_for_nothing():
    with Program() as p:
        p.issue(2)
        p.call(COMMIT_DIRECT_LOADS)
        with p.serial(0, p.thread):
            p.issue(1)
        p.call(COMMIT_DIRECT_LOADS)
        p.call(WAIT_FOR_DIRECT_LOAD_GROUPS, 1)
    assert [0] == waits(p.counted())


def test_loops_of_known_length_count_in_full():
    with Program() as p:
        with p.serial(0, 5):
            p.issue(2)
        p.call(COMMIT_DIRECT_LOADS)
        p.call(WAIT_FOR_DIRECT_LOAD_GROUPS, 1)
    assert [10] == waits(p.counted())


def test_the_counter_ends_at_63():
    with Program() as p:
        p.issue(40)
        p.call(COMMIT_DIRECT_LOADS)
        p.issue(40)
        p.call(COMMIT_DIRECT_LOADS)
        p.call(WAIT_FOR_DIRECT_LOAD_GROUPS, 2)
    assert [63] == waits(p.counted())


def test_programs_without_direct_loads_lose_their_marks():
    p = ThreadProgram()
    with p.kernel(1):
        p.call(COMMIT_DIRECT_LOADS)
        p.call(WAIT_FOR_DIRECT_LOAD_GROUPS, 0)
    assert [] == waits(count_direct_loads.PASS.run(p.finish(), PassContext(target=Target("hip", "gfx950"))))
