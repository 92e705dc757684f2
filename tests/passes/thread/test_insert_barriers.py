"""Every conflict between threads is separated by a barrier, and no barrier is without one."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.dtypes import BOOL, FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Load, Var, as_expr, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    For,
    ForKind,
    Group,
    If,
    Launch,
    MemoryOrder,
    Seq,
    Store,
    While,
)
from tilelang.ir.visit import expressions, walk, walk_expr
from tilelang.passes.thread.insert_barriers import insert_barriers
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async
from tilelang.targets.nvidia.isa.named_barrier import BAR_SYNC
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, bulk_store, tma_store_wait

THREADS = 64
UINT32 = as_dtype("uint32")
T = Var("t", INT32, index=True)
BX = Var("bx", INT32, index=True)


def c(value):
    return const(value, INT32)


def index(name):
    return Var(name, INT32, index=True)


def buffer(name, *shape, scope=Scope.SHARED):
    return Buffer(name, tuple(c(e) for e in shape), FLOAT32, scope)


S, R, V2 = buffer("S", 64), buffer("R", 64), buffer("V", 2, 64)
G = buffer("G", 4, 64, scope=Scope.GLOBAL)
ACC = buffer("acc", 8, scope=Scope.LOCAL)


def write(target, *indices):
    return Store(target, tuple(as_expr(i) for i in indices), Const(1.0, FLOAT32))


def read(source, *indices):
    return Store(ACC, (c(0),), Load(source, tuple(as_expr(i) for i in indices), FLOAT32))


def serial(var, trips, *body):
    return For(var, c(0), as_expr(trips), 1, ForKind.SERIAL, Seq(body))


def placed(*body, threads=THREADS, plan=LaunchPlan()):
    launch = Launch((BX,), (c(2),), (threads, 1, 1), Seq((Alloc(ACC), *body)), thread=T, plan=plan)
    return insert_barriers(launch, 32)


def is_barrier(stmt):
    return isinstance(stmt, CallStmt) and stmt.routine in (SYNC_THREADS, SYNC_WARP)


def barriers(launch):
    return [s for s in walk(launch.body) if is_barrier(s)]


class Execution:
    """What every thread touches, and between which barriers: an execution of a program without data."""

    def __init__(self, threads=THREADS, skip=None):
        self.threads = np.arange(threads)
        self.skip = skip
        self.epoch = 0
        self.instance = 0
        self.touched = {}  # (buffer, element, epoch) -> [(instance, thread, write)]

    def run(self, stmt, env, active):
        self.instance += 1
        match stmt:
            case Seq():
                for child in stmt.body:
                    self.run(child, env, active)
            case For():
                for value in range(int(evaluate(stmt.start, env)), int(evaluate(stmt.stop, env)), stmt.step):
                    self.run(stmt.body, {**env, stmt.var: value}, active)
            case If():
                self.reads(stmt, env, active)
                holds = np.broadcast_to(evaluate(stmt.condition, env), active.shape).astype(bool)
                if (active & holds).any():
                    self.run(stmt.then_body, env, active & holds)
                if stmt.else_body is not None and (active & ~holds).any():
                    self.run(stmt.else_body, env, active & ~holds)
            case _ if is_barrier(stmt):
                assert active.all(), "a barrier that some threads do not reach"
                self.epoch += stmt is not self.skip
            case Store():
                self.reads(stmt, env, active)
                if stmt.buffer.scope is not Scope.LOCAL:
                    self.note(stmt.buffer, stmt.indices, env, active, write=True)
        return self

    def reads(self, stmt, env, active):
        for root in expressions(stmt):
            for node in walk_expr(root):
                if isinstance(node, Load) and node.buffer.scope is not Scope.LOCAL:
                    self.note(node.buffer, node.indices, env, active, write=False)

    def note(self, target, indices, env, active, *, write):
        places = [np.broadcast_to(evaluate(i, env), active.shape) for i in indices]
        for thread in self.threads[active]:
            where = (target, tuple(int(p[thread]) for p in places), self.epoch)
            self.touched.setdefault(where, []).append((self.instance, int(thread), write))

    @property
    def races(self):
        return [
            where
            for where, accesses in self.touched.items()
            if any(
                a[0] != b[0] and a[1] != b[1] and (a[2] or b[2]) for a, b in itertools.combinations(accesses, 2)
            )
        ]


def races(launch, skip=None, symbols=()):
    env = {T: np.arange(THREADS), BX: 1, **dict(symbols)}
    return Execution(skip=skip).run(launch.body, env, np.ones(THREADS, bool)).races


# -- random programs --------------------------------------------------------------------------------------------

OWN = [T, (T + 3) % 64, 63 - T, T ^ 5, (T * 5) % 64]
ANY = [*OWN, c(7), T // 2, T % 8 * 8]


@st.composite
def straight_lines(draw, versions=(c(0), c(1))):
    version = st.sampled_from(versions)

    def place(target, forms):
        where = [draw(st.sampled_from(forms))]
        return [draw(version), *where] if target is V2 else where

    body = []
    for kind in draw(st.lists(st.sampled_from("wwrrog"), min_size=2, max_size=7)):
        target = draw(st.sampled_from([S, R, V2]))
        match kind:
            case "w":
                body.append(write(target, *place(target, OWN)))
            case "r":
                body.append(read(target, *place(target, ANY)))
            case "o":
                body.append(If(T == draw(st.integers(0, 63)), write(target, *place(target, [c(7), c(8)]))))
            case "g":
                body.append(draw(st.sampled_from([write(G, BX, T), read(G, BX, (T + 1) % 64), write(G, BX, T ^ 1)])))
    return body


@settings(max_examples=60)
@given(straight_lines())
def test_straight_programs_get_exactly_the_barriers_they_need(body):
    launch = placed(*body)
    assert not races(launch)
    for barrier in barriers(launch):
        assert races(launch, skip=barrier), "a barrier that separates nothing"


@st.composite
def loops(draw):
    k = index("k")
    body = draw(straight_lines(versions=(k % 2, (k + 1) % 2, c(0))))
    if draw(st.booleans()):
        body = [*body[:1], If(k < draw(st.integers(0, 3)), Seq(tuple(body[1:2]))), *body[2:]]
    if draw(st.booleans()):
        j = index("j")
        inner = draw(straight_lines(versions=(j % 2, (k + j) % 2, k % 2)))
        body.append(serial(j, draw(st.integers(0, 3)), *inner))
    trips = index("n") if draw(st.booleans()) else c(draw(st.integers(0, 4)))
    before, after = draw(straight_lines()), draw(straight_lines())
    return [*before, serial(k, trips, *body), *after], trips


@settings(max_examples=60)
@given(loops(), st.integers(0, 4))
def test_programs_with_loops_have_no_race(program, count):
    body, trips = program
    launch = placed(*body)
    assert not races(launch, symbols={} if isinstance(trips, Const) else {trips: count})


# -- where barriers stand ---------------------------------------------------------------------------------------


def before(launch):
    """The statements that follow barriers, as text."""
    found = []
    for stmt in walk(launch.body):
        if isinstance(stmt, Seq):
            found += [b for a, b in itertools.pairwise(stmt.body) if is_barrier(a)]
    return found


def test_threads_that_read_what_they_wrote_need_no_barrier():
    i = index("i")
    spread = For(i, c(0), c(2), 1, ForKind.UNROLLED, write(S, T % 32 + i * 32))
    assert not barriers(placed(write(S, T), read(S, T), write(S, T), read(S, T)))
    assert not barriers(placed(If(T < 32, spread), If(T < 32, read(S, T % 32 + 32))))
    assert 1 == len(barriers(placed(spread, read(S, T % 32 + 32))))
    assert not barriers(placed(If(T == 3, write(S, 5)), If(T == 3, read(S, 5))))
    assert 1 == len(barriers(placed(If(T == 3, write(S, 5)), If(T == 4, read(S, 5)))))


def test_a_barrier_stands_before_the_loop_if_only_what_came_before_it_matters():
    k = index("k")
    loop = serial(k, index("n"), read(S, (T + k) % 64))
    launch = placed(write(S, T), loop, threads=THREADS)
    assert [loop] == before(launch)


def test_what_one_iteration_leaves_for_the_next_is_separated_inside_of_the_loop():
    k = index("k")
    loop = serial(k, index("n"), write(S, T), read(S, 63 - T))
    assert 2 == len(barriers(placed(loop)))  # after the writes, and before the next ones


@pytest.mark.parametrize("versions", [1, 2, 3])
def test_tiles_in_turn_need_one_barrier_an_iteration(versions):
    ring = buffer("ring", versions, 64)
    k = index("k")
    loop = serial(k, index("n"), write(ring, k % versions, T), read(ring, k % versions, 63 - T))
    assert (2 if versions == 1 else 1) == len(barriers(placed(loop)))


def test_a_barrier_is_shared_by_a_branch_and_what_follows_it():
    ring, k = buffer("ring", 2, 64), index("k")
    fill = If(k + 1 < index("n"), write(ring, (k + 1) % 2, T))
    launch = placed(write(ring, 0, T), serial(k, index("n"), fill, read(ring, k % 2, 63 - T)))
    assert [fill] == before(launch)


@pytest.mark.parametrize("own", [CallStmt(SYNC_THREADS, ())])
def test_barriers_of_the_user_count(own):
    assert 1 == len(barriers(placed(write(S, T), own, read(S, 63 - T))))


def test_barriers_of_some_warps_do_not_count():
    some = CallStmt(BAR_SYNC, (c(1), c(64)))
    assert 1 == len(barriers(placed(write(S, T), some, read(S, 63 - T))))


def test_no_barrier_stands_where_threads_go_different_ways():
    odd = If(T % 2 == 0, Seq((read(S, 63 - T), write(R, T))))
    launch = placed(write(S, T), odd, read(R, T // 2))
    assert [odd, launch.body.body[-1]] == before(launch)
    k, flag = index("k"), buffer("flag", scope=Scope.VAR)
    alloc = Alloc(flag, Load(S, (T,), FLOAT32))
    own_way = While(Load(flag, (), FLOAT32) > 0.0, Seq((read(R, 63 - T), Store(flag, (), Const(0.0, FLOAT32)))))
    early = serial(k, 8, If(Load(flag, (), FLOAT32) > 0.0, Break()), read(R, 63 - T))
    again = write(R, T)
    launch = placed(write(S, T), alloc, write(R, T), own_way, again, early)
    assert [own_way, again, early] == before(launch)


def test_a_condition_that_is_asked_again_is_separated_from_what_the_body_wrote():
    loop = While(Load(S, (c(0),), FLOAT32) > 0.0, Seq((If(T == 0, write(S, 0)),)))
    launch = placed(If(T == 5, write(S, 0)), loop)
    assert 3 == len(barriers(launch))  # before the loop, before the write and before asking again
    assert is_barrier(next(s for s in walk(launch.body) if isinstance(s, While)).body.body[-1])


def test_a_condition_is_read_once_more_after_the_last_iteration():
    loop = While(Load(S, (c(0),), FLOAT32) > 0.0, Seq((CallStmt(SYNC_THREADS, ()), If(T == 0, write(S, 0)))))
    after = If(T == 40, write(S, 0))
    launch = placed(loop, after)
    assert after in before(launch)
    around = serial(index("k"), 4, If(T == 40, write(S, 0)), loop, read(R, T))
    assert next(s for s in walk(around) if isinstance(s, If)) in before(placed(around))


def test_one_warp_meets_by_itself_and_one_thread_has_nobody_to_meet():
    launch = placed(write(S, T), read(S, 31 - T), threads=32)
    (barrier,) = barriers(launch)
    assert SYNC_WARP is barrier.routine
    assert 2**32 - 1 == barrier.args[0].value
    (barrier,) = barriers(placed(write(S, T), read(S, 7 - T), threads=8))
    assert 255 == barrier.args[0].value
    assert not barriers(placed(write(S, T), read(S, T), threads=1))
    whole = CallStmt(SYNC_WARP, (const(2**32 - 1, UINT32),))
    assert 1 == len(barriers(placed(write(S, T), whole, read(S, 31 - T), threads=32)))
    half = CallStmt(SYNC_WARP, (const(2**16 - 1, UINT32),))
    assert 2 == len(barriers(placed(write(S, T), half, read(S, 31 - T), threads=32)))


def test_buffers_that_lie_over_each_other_are_separated():
    plan = LaunchPlan(shared_offsets=((S, 0), (R, 128), (V2, 512)))
    assert 1 == len(barriers(placed(write(S, T), write(R, T), plan=plan)))
    assert 0 == len(barriers(placed(write(S, T), write(V2, 0, T), plan=plan)))


def test_atomics_need_no_order_among_themselves_but_one_with_other_accesses():
    add = Atomic(AtomicOp.ADD, S, (T % 8,), Const(1.0, FLOAT32))
    assert not barriers(placed(add, add))
    assert 2 == len(barriers(placed(write(S, T), add, read(S, 0))))


# -- what other blocks see -------------------------------------------------------------------------------------

FLAGS = Buffer("flags", (c(4), c(64)), INT32, Scope.GLOBAL)
FIRST = T == 0
RELEASING = [MemoryOrder.RELEASE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST]
ACQUIRING = [MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST]


def update(order, *indices, op=AtomicOp.EXCHANGE, target=FLAGS):
    value = None if op is AtomicOp.LOAD else c(1)
    result = Var("old", INT32) if op is AtomicOp.LOAD else None
    return Atomic(op, target, tuple(as_expr(i) for i in indices), value, result, order)


def by_one(*body):
    return If(FIRST, Seq(body))


@pytest.mark.parametrize("order", RELEASING)
@pytest.mark.parametrize(
    "done", [write(G, 0, T), read(G, 0, T), Atomic(AtomicOp.ADD, G, (c(0), T), Const(1.0, FLOAT32))], ids=str
)
def test_what_all_threads_did_is_over_before_one_of_them_tells_other_blocks(done, order):
    told = by_one(update(order, 0, 0))
    found = placed(write(G, 1, T), done, told)
    assert barriers(found) and is_barrier(found.body.body[-2]) and found.body.body[-1] is told
    assert 1 == len(barriers(found))


def test_only_a_release_waits_for_what_other_threads_did_to_global_memory():
    for stmt in (update(MemoryOrder.RELAXED, 0, 0), update(MemoryOrder.ACQUIRE, 0, 0), write(G, 3, 0)):
        assert not barriers(placed(write(G, 0, T), by_one(stmt)))
    assert not barriers(placed(write(S, T), by_one(update(MemoryOrder.RELEASE, 0, 0))))
    shared = Buffer("told", (c(4),), INT32, Scope.SHARED)
    assert not barriers(placed(write(G, 0, T), by_one(update(MemoryOrder.RELEASE, 0, target=shared))))
    assert not barriers(placed(by_one(write(G, 0, 0)), by_one(update(MemoryOrder.RELEASE, 0, 0))))


def test_a_release_by_each_thread_waits_for_all_of_them():
    assert 1 == len(barriers(placed(write(G, 0, T), update(MemoryOrder.RELEASE, 0, T))))


def test_a_release_in_every_iteration_waits_for_what_it_tells():
    k = index("k")
    told = by_one(update(MemoryOrder.RELEASE, k, 0))
    (loop,) = [s for s in walk(placed(serial(k, 4, write(G, k, T), told)).body) if isinstance(s, For)]
    assert [False, True, False] == [is_barrier(s) for s in loop.body.body] and loop.body.body[-1] is told
    found = placed(write(G, 0, T), serial(k, 4, told))
    assert 1 == len(barriers(found)) and is_barrier(found.body.body[-2])


@pytest.mark.parametrize("order", ACQUIRING)
@pytest.mark.parametrize("later", [read(G, 0, T), write(G, 0, T)], ids=str)
def test_other_threads_go_on_after_the_one_that_looks_for_all_of_them(order, later):
    found = placed(by_one(update(order, 0, 0)), later, write(G, 1, T))
    assert 1 == len(barriers(found)) and is_barrier(found.body.body[-3])


def test_the_barrier_that_passes_on_what_one_thread_has_seen_is_enough():
    seen = Buffer("seen", (c(1),), INT32, Scope.SHARED)
    old = Var("old", INT32)
    ticket = Atomic(AtomicOp.ADD, FLAGS, (c(0), c(0)), c(1), old, MemoryOrder.ACQ_REL)
    found = placed(
        write(G, 0, T), by_one(ticket, Store(seen, (c(0),), old)), If(Load(seen, (c(0),), INT32) == 3, read(G, 1, T))
    )
    assert 2 == len(barriers(found))


def test_nobody_waits_if_each_thread_has_looked_for_itself():
    look = update(MemoryOrder.ACQUIRE, 0, 0, op=AtomicOp.LOAD)
    spin = While(Const(True, BOOL), Seq((look, If(look.result == 1, Break()))))
    told = update(MemoryOrder.RELAXED, 0, 0)
    assert not barriers(placed(spin, read(G, 0, T), write(G, 1, T), by_one(told)))
    assert 1 == len(barriers(placed(by_one(spin), read(G, 0, T), write(G, 1, T), by_one(told))))
    each = update(MemoryOrder.ACQUIRE, 0, T, op=AtomicOp.LOAD)
    assert 1 == len(barriers(placed(each, read(G, 0, T), write(G, 1, T), by_one(told))))
    some = If(Load(ACC, (T % 8,), FLOAT32) > 0.0, look)
    assert 1 == len(barriers(placed(some, read(G, 0, T), write(G, 1, T), by_one(told))))


def test_what_the_copy_engine_stores_is_told_after_a_wait_and_a_barrier_behind_it():
    tile, there = Region(S, (c(0),), (c(64),)), Region(G, (c(0), c(0)), (c(1), c(64)))
    store = CallStmt(bulk_store(), (there, tile, c(256)), (tile,), (there,))
    sent, wait = by_one(store, CallStmt(TMA_STORE_COMMIT, ())), by_one(CallStmt(tma_store_wait(0, read=False), ()))
    assert not barriers(placed(sent, wait, by_one(update(MemoryOrder.RELEASE, 0, 0))))
    told = If(T == 1, update(MemoryOrder.RELEASE, 0, 0))
    found = placed(sent, wait, told)
    assert is_barrier(found.body.body[-2]) and found.body.body[-1] is told


def test_global_memory_is_separated_within_a_block():
    assert 1 == len(barriers(placed(write(G, BX, T), read(G, BX, 63 - T))))
    assert 0 == len(barriers(placed(write(G, BX, T), read(G, BX + 1, 63 - T))))


def test_names_of_index_arithmetic_are_looked_through():
    row = index("row")
    assert 0 == len(barriers(placed(write(S, T), Bind(row, T * 1), read(S, row))))
    assert 1 == len(barriers(placed(write(S, T), Bind(row, 63 - T), read(S, row))))
    data = Var("data", INT32)
    fetch = Bind(data, Load(Buffer("table", (c(64),), INT32, Scope.GLOBAL), (T,), INT32))
    assert 1 == len(barriers(placed(write(S, T), fetch, read(S, data))))


# -- asynchronous copies ----------------------------------------------------------------------------------------

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
