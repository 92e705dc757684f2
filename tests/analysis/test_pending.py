"""What barriers and waits make of accesses that are pending."""

from tilelang.analysis.pending import begun, committed, groups_left, joined, keyed, met, waited, waited_by_some
from tilelang.analysis.thread_accesses import Touch
from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import NOWHERE
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.stmt import CallStmt, Seq
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC, TMA_STORE, WGMMA
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.isa.wgmma import wgmma_wait

OLDEST = 3
S = Buffer("S", (as_expr(64),), as_dtype("float16"), Scope.SHARED)


def touch(unit, write=True):
    return Touch(S, (as_expr(0),), (1,), write, False, unit, (), (), NOWHERE)


def state(*touches):
    return keyed(p for t in touches for p in begun(t, OLDEST))


def commits(of):
    return sorted((p.commits for p in of.values()), key=lambda n: -1 if n is None else n)


def test_barriers_end_what_is_complete_but_not_what_is_under_way():
    store, copy = touch(None), touch(CP_ASYNC)
    both = state(store, copy)
    assert [None, 0] == commits(both)
    assert [copy] == [p.touch for p in met(both).values()]


def test_waits_complete_the_groups_of_copies_that_are_older_than_those_they_leave():
    copy = state(touch(CP_ASYNC))
    once = committed(copy, OLDEST)
    assert [1] == commits(once)
    assert [1] == commits(waited(once, 1))
    assert [None] == commits(waited(once, 0))
    assert [0] == commits(waited(copy, 0))  # a group that is still open is not waited for
    many = once
    for _ in range(9):
        many = committed(many, OLDEST)
    assert [OLDEST] == commits(many)


def test_what_engines_read_late_may_be_complete_or_under_way_and_groups_of_copies_do_not_count_it():
    late = state(touch(TMA_STORE, write=False))
    assert [None, OLDEST] == commits(late)
    assert late == committed(late, OLDEST) == waited(late, 0)
    assert [OLDEST] == commits(met(late))
    assert late == waited_by_some(met(late), TMA_STORE)
    assert met(late) == waited_by_some(met(late), WGMMA)


def test_ways_that_are_not_taken_add_nothing():
    first, second = state(touch(None)), state(touch(None))
    assert 2 == len(joined([first, None, second]))
    assert joined([None, None]) is None


def test_a_wait_says_how_many_groups_it_leaves_by_its_record_or_its_argument():
    assert [2, 0] == [groups_left(CallStmt(wgmma_wait(2), ())), groups_left(CallStmt(CP_ASYNC_WAIT, (as_expr(0),)))]
    unknown = CallStmt(CP_ASYNC_WAIT, (Var("n", INT32),))
    assert [None, None, None] == [groups_left(s) for s in (unknown, CallStmt(CP_ASYNC_COMMIT, ()), Seq(()))]
