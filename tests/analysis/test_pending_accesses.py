"""What barriers and waits make of accesses that are pending."""

from tilelang.analysis.pending_accesses import (
    after_barrier,
    committed,
    committed_by_all,
    groups_pending,
    issued,
    issued_by_some,
    keyed,
    merged,
    waited,
    waited_by_all,
    waited_by_some,
)
from tilelang.analysis.thread_accesses import ThreadAccess
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


def access(unit, write=True):
    return ThreadAccess(S, (as_expr(0),), (1,), write, None, unit, (), (), NOWHERE)


def state(*accesses):
    return keyed(p for t in accesses for p in issued(t))


def commits(of):
    return sorted((p.commits for p in of.values()), key=lambda n: -1 if n is None else n)


def test_barriers_end_what_is_complete_but_not_what_is_under_way():
    store, copy = access(None), access(CP_ASYNC)
    both = state(store, copy)
    assert [None, 0] == commits(both)
    assert [copy] == [p.access for p in after_barrier(both).values()]


def test_waits_complete_the_groups_of_copies_that_are_older_than_those_they_leave():
    copy = state(access(CP_ASYNC))
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
    late = state(access(TMA_STORE, write=False))
    assert [None, 0] == commits(late)
    assert late == committed(late, OLDEST) == waited(late, 0)
    assert [0] == commits(after_barrier(late))
    assert late == waited_by_some(after_barrier(late), TMA_STORE)
    assert after_barrier(late) == waited_by_some(after_barrier(late), WGMMA)


def test_a_wait_of_all_threads_for_all_groups_completes_what_they_committed():
    late = after_barrier(state(access(WGMMA, write=False)))
    assert [None, 0] == commits(waited_by_all(late, WGMMA))  # no group has it yet
    assert late == committed_by_all(late, OLDEST, TMA_STORE)
    grouped = committed_by_all(late, OLDEST, WGMMA)
    assert [OLDEST] == commits(grouped)
    assert [None, OLDEST] == commits(waited_by_some(grouped, WGMMA))
    assert [None] == commits(waited_by_all(grouped, WGMMA))
    assert grouped == waited_by_all(grouped, TMA_STORE)
    written = committed_by_all(after_barrier(state(access(TMA_STORE))), OLDEST, TMA_STORE)
    assert [None, OLDEST] == commits(waited_by_all(written, TMA_STORE))  # it may wait for reads only


def test_what_some_threads_issue_may_be_complete_and_only_copies_that_each_thread_counts_surely_are_once_waited_for():
    assert [None, 0] == commits(keyed(issued_by_some(access(WGMMA, write=False), OLDEST)))
    assert [None, OLDEST] == commits(keyed(issued_by_some(access(CP_ASYNC), OLDEST)))


def test_ways_that_are_not_taken_add_nothing():
    first, second = state(access(None)), state(access(None))
    assert 2 == len(merged([first, None, second]))
    assert merged([None, None]) is None


def test_a_wait_says_how_many_groups_it_leaves_by_its_record_or_its_argument():
    assert [2, 0] == [groups_pending(CallStmt(wgmma_wait(2), ())), groups_pending(CallStmt(CP_ASYNC_WAIT, (as_expr(0),)))]
    unknown = CallStmt(CP_ASYNC_WAIT, (Var("n", INT32),))
    assert [None, None, None] == [groups_pending(s) for s in (unknown, CallStmt(CP_ASYNC_COMMIT, ()), Seq(()))]
