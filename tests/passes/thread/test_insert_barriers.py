"""Every conflict between threads is separated by a barrier, and no barrier is without one."""


import pytest
from barrier_programs import (
    BX,
    THREADS,
    UINT32,
    V2,
    G,
    R,
    S,
    T,
    barriers,
    before,
    buffer,
    c,
    index,
    is_barrier,
    placed,
    races,
    read,
    serial,
    write,
)
from by_hand import ThreadProgram
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Const, Load, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Break,
    CallStmt,
    Continue,
    For,
    ForKind,
    If,
    Launch,
    Seq,
    Store,
    While,
)
from tilelang.ir.visit import walk
from tilelang.passes.thread.insert_barriers import has_enough_barriers
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC

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


@given(loops(), st.integers(0, 4))
def test_programs_with_loops_have_no_race(program, count):
    body, trips = program
    launch = placed(*body)
    assert not races(launch, symbols={} if isinstance(trips, Const) else {trips: count})


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


@pytest.mark.parametrize("loop", [False, True])
def test_no_barrier_stands_where_warps_run_in_turn(loop):
    wait, arrive = CallStmt(BAR_SYNC, (1 + T // 32, c(64))), CallStmt(BAR_ARRIVE, (2 - T // 32, c(64)))
    again = write(S, T)
    body = [again, wait, Seq((read(R, T), read(S, 63 - T))), arrive]
    launch = placed(*([serial(index("k"), 8, *body)] if loop else body))
    assert [again] * loop + [wait] == before(launch)
    own = read(S, 63 - T)
    assert [own] == before(placed(wait, write(S, T), own, arrive))
    assert [own] == before(placed(write(S, T), wait, arrive, own))


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


def test_a_jump_to_a_condition_is_separated_from_what_the_body_wrote():
    fill, skip = If(T == 0, write(S, 0)), If(Load(R, (c(1),), FLOAT32) > 0.0, Continue())
    loop = While(Load(S, (c(0),), FLOAT32) > 0.0, Seq((fill, skip, read(R, T))))
    assert [fill, skip] == before(placed(loop))  # one before the branch counts at the end, too
    early = While(Load(S, (c(0),), FLOAT32) > 0.0, Seq((skip, fill)))
    assert [fill] == before(placed(early))
    assert 2 == len(barriers(placed(early)))


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


def test_atomics_that_commute_need_no_order_among_themselves_but_one_with_other_accesses():
    add = Atomic(AtomicOp.ADD, S, (T % 8,), Const(1.0, FLOAT32))
    assert not barriers(placed(add, add))
    assert not barriers(placed(serial(index("k"), 4, add)))
    assert 2 == len(barriers(placed(write(S, T), add, read(S, 0))))


@pytest.mark.parametrize("target", [S, G])
def test_atomics_that_do_not_commute_are_separated(target):
    at = (T % 8,) if target is S else (c(0), T % 8)
    first = Atomic(AtomicOp.MAX, target, at, Const(1.0, FLOAT32))
    second = Atomic(AtomicOp.MIN, target, at, Const(1.0, FLOAT32))
    assert [second] == before(placed(first, second))
    assert not barriers(placed(first, Atomic(AtomicOp.MIN, target, (*at[:-1], T % 8 + 8), Const(1.0, FLOAT32))))
    exchange = Atomic(AtomicOp.EXCHANGE, target, at, Const(1.0, FLOAT32))
    assert 1 == len(barriers(placed(serial(index("k"), 4, exchange))))


@pytest.mark.parametrize(("barriers_inside", "enough"), [((), False), ((SYNC_THREADS,), False), ((SYNC_THREADS,) * 2, True)])
def test_a_loop_has_enough_barriers_if_none_is_missing_inside(barriers_inside, enough):
    """What conflicts outside of the loop does not count."""
    p = ThreadProgram()
    a, out, t = p.tensor("A", (4, 64)), p.tensor("out", (4, 64)), p.thread
    with p.kernel(1, threads=64):
        tile, other = p.shared("tile", (64,)), p.shared("other", (64,))
        with p.serial(0, 4) as k:
            p.store(tile, (t,), p.load(a, k, t) + 0)
            for barrier in barriers_inside[:1]:
                p.call(barrier)
            p.store(out, (k, t), p.load(tile, 63 - t) + 0)
            for barrier in barriers_inside[1:]:
                p.call(barrier)
        p.store(other, (t,), 1.0)
        p.store(out, (0, t), p.load(other, 63 - t) + 0)
    (launch,) = (s for s in walk(p.finish().body) if isinstance(s, Launch))
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For))
    assert enough == has_enough_barriers(loop, launch, 32)
