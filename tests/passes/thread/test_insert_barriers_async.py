"""Barriers after waits for asynchronous copies, in software pipelines too."""


import pytest
from barrier_programs import V2, G, S, T, barriers, before, buffer, c, index, is_barrier, placed, read, serial, write

from tilelang.dtypes import BOOL, FLOAT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, as_expr
from tilelang.ir.stmt import (
    CallStmt,
    For,
    Group,
    If,
    Seq,
    Store,
)
from tilelang.ir.visit import walk
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, bulk_store, tma_store_wait

A = Buffer("A", (c(64), c(64)), FLOAT32, Scope.GLOBAL)


def issue(target, version, source):
    dst = Region(target, (as_expr(version), T), (c(1), c(1)))
    src = Region(A, (as_expr(source), T), (c(1), c(1)))
    return CallStmt(cp_async(4), (dst, src, Const(True, BOOL)), (src,), (dst,))


def commit():
    return CallStmt(CP_ASYNC_COMMIT, ())


def wait(left):
    return CallStmt(CP_ASYNC_WAIT, (c(left),))


def test_what_a_copy_brings_is_visible_after_a_wait_and_a_barrier_behind_it():
    use = read(V2, 0, 63 - T)
    assert [use] == before(placed(issue(V2, 0, 0), commit(), wait(0), use))
    early = CallStmt(SYNC_THREADS, ())
    launch = placed(issue(V2, 0, 0), commit(), early, wait(0), use)
    assert [launch.body.body[-3], use] == before(launch)


def test_a_wait_that_leaves_a_group_under_way_says_nothing_about_it():
    first, second = read(V2, 0, 63 - T), read(V2, 1, 63 - T)
    launch = placed(issue(V2, 0, 0), commit(), issue(V2, 1, 1), commit(), wait(1), first, wait(0), second)
    assert [first, second] == before(launch)


def test_a_thread_sees_its_own_copies_without_a_barrier():
    assert not barriers(placed(issue(V2, 0, 0), commit(), wait(0), read(V2, 0, T)))


def test_what_a_copy_reads_is_written_after_a_wait_and_a_barrier_behind_it():
    """The copy of another thread may read until that thread has waited for it."""
    early, done, change = CallStmt(SYNC_THREADS, ()), wait(0), write(A, 0, 63 - T)
    assert [done, change] == before(placed(issue(V2, 0, 0), commit(), early, done, change))
    assert not barriers(placed(issue(V2, 0, 0), commit(), wait(0), write(A, 0, T)))
    assert not barriers(placed(issue(V2, 0, 0), commit(), wait(0), write(A, 1, 63 - T)))


@pytest.mark.parametrize("trips", [9, 5000])
def test_threads_that_fill_again_what_they_have_read_need_no_barrier(trips):
    """However many iterations there are: they do not move the elements that a thread has."""
    ring, k = buffer("ring", 2, 8, 8), index("k")

    def fill(version, source):
        dst = Region(ring, (as_expr(version), T // 8, T % 8), (c(1), c(1), c(1)))
        src = Region(A, (as_expr(source), T), (c(1), c(1)))
        return CallStmt(cp_async(4), (dst, src, Const(True, BOOL)), (src,), (dst,))

    prologue = [s for stage in range(2) for s in (fill(stage, stage), commit())]
    body = (wait(1), read(ring, k % 2, T // 8, T % 8), If(k + 2 < trips, fill((k + 2) % 2, k + 2)), commit())
    assert not barriers(placed(*prologue, serial(k, trips, *body)))
    others = (wait(1), read(ring, k % 2, T % 8, T // 8), *body[2:])
    assert 2 == len(barriers(placed(*prologue, serial(k, trips, *others))))


@pytest.mark.parametrize("stages", [2, 3, 4, 5, 12, 24])
def test_a_pipeline_has_one_barrier_an_iteration_right_behind_its_wait(stages):
    ring, k, n = buffer("ring", stages, 64), index("k"), index("n")
    ahead = k + (stages - 1)
    prologue = [s for stage in range(stages - 1) for s in (issue(ring, stage, stage), commit())]
    issuing = If(ahead < n, issue(ring, ahead % stages, ahead))
    body = (wait(stages - 2), issuing, commit(), read(ring, k % stages, 63 - T))
    launch = placed(*prologue, serial(k, n, *body))
    assert [issuing] == before(launch)


def test_a_pipeline_that_starts_anew_waits_for_the_readers_of_the_last_one():
    stages = 3
    ring, k, r = buffer("ring", stages, 64), index("k"), index("r")
    prologue = [s for stage in range(stages - 1) for s in (issue(ring, stage, stage), commit())]
    issuing = If(k + 2 < 9, issue(ring, (k + 2) % stages, k + 2))
    body = (wait(stages - 2), issuing, commit(), read(ring, k % stages, 63 - T))
    launch = placed(serial(r, index("n"), *prologue, serial(k, 9, *body)))
    assert [prologue[0], issuing] == before(launch)


@pytest.mark.parametrize("alone", [False, True])
def test_what_the_copy_engine_reads_is_written_again_after_a_wait_and_a_barrier_behind_it(alone):
    tile = Region(S, (c(0),), (c(64),))
    stores = CallStmt(bulk_store(), (Region(G, (c(0), c(0)), (c(1), c(64))), tile, c(256)), (tile,))
    wait = CallStmt(tma_store_wait(0), ())
    waits = If(T < 1, wait, group=Group(0, 1, collective=True)) if alone else wait
    sends = If(T == 0, Seq((stores, CallStmt(TMA_STORE_COMMIT, ()))))
    launch = placed(serial(index("k"), 4, waits, write(S, T), sends))
    (loop,) = [s for s in walk(launch.body) if isinstance(s, For)]
    assert [waits, True, True, sends] == [is_barrier(s) or s for s in loop.body.body if not isinstance(s, Store)]
    assert is_barrier(loop.body.body[1])
