"""Blocks know of each other what releases and acquires tell them, and nothing else."""

import numpy as np
import pytest

from tilelang.dtypes import INT32
from tilelang.errors import DataRace
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.stmt import Atomic, AtomicOp, MemoryOrder
from tilelang.ops.atomic import AtomicTile
from tilelang.sim.clocks import Clocks
from tilelang.sim.release_acquire import AtomicAccess, ReleaseAcquire

RELEASE = AtomicAccess(loads=False, stores=True, acquires=False, releases=True)
ACQUIRE = AtomicAccess(loads=True, stores=False, acquires=True, releases=False)
COUNT = AtomicAccess(loads=True, stores=True, acquires=False, releases=False)
STORE = AtomicAccess(loads=False, stores=True, acquires=False, releases=False)
BOTH = AtomicAccess(loads=True, stores=True, acquires=True, releases=True)
THREADS = 64


class Clusters:
    """Blocks one after another."""

    def __init__(self):
        self.clocks = Clocks(THREADS)
        self.release_acquire = ReleaseAcquire(self.clocks)
        self.begin(0)

    def begin(self, cluster):
        self.release_acquire.cluster = cluster
        self.clocks.begin_block()

    def touch(self, thread):
        """A stamp."""
        return self.clocks.now << 32 | thread

    def knows(self, thread, cluster, earlier):
        now = np.array([self.touch(thread)])
        return bool(self.release_acquire.happened_before(now, np.array([cluster]), np.array([earlier]))[0])


@pytest.mark.parametrize(
    ("first", "between", "last", "told"),
    [
        (RELEASE, None, ACQUIRE, True),
        (RELEASE, COUNT, ACQUIRE, True),
        (RELEASE, STORE, ACQUIRE, False),
        (STORE, None, ACQUIRE, False),
        (RELEASE, None, COUNT, False),
        (BOTH, BOTH, BOTH, True),
    ],
)
def test_who_acquires_what_was_released_knows_what_was_done_before(first, between, last, told):
    clusters = Clusters()
    before = clusters.touch(0)
    clusters.release_acquire.update("flag", 0, first)
    after = clusters.touch(0)
    if between is not None:
        clusters.begin(1)
        clusters.release_acquire.update("flag", 0, between)
    clusters.begin(2)
    assert not clusters.knows(0, 0, before)
    clusters.release_acquire.update("other", 0, last)
    assert not clusters.knows(0, 0, before)
    clusters.release_acquire.update("flag", 0, last)
    assert clusters.knows(0, 0, before) == told
    assert not clusters.knows(0, 0, after) and not clusters.knows(5, 0, before)


def test_what_other_threads_did_is_told_after_they_met_and_what_one_learned_is_known_after_they_meet():
    clusters = Clusters()
    early = clusters.touch(7)
    clusters.clocks.synchronize_all()
    late = clusters.touch(7)
    clusters.release_acquire.update("flag", 0, RELEASE)
    clusters.begin(1)
    clusters.release_acquire.update("flag", 3, ACQUIRE)
    assert clusters.knows(3, 0, early) and not clusters.knows(3, 0, late) and not clusters.knows(4, 0, early)
    clusters.clocks.synchronize(np.arange(32))
    assert clusters.knows(4, 0, early) and not clusters.knows(40, 0, early)


def test_what_was_learned_is_told_on():
    clusters = Clusters()
    first = clusters.touch(0)
    clusters.release_acquire.update("a", 0, RELEASE)
    clusters.begin(1)
    clusters.release_acquire.update("a", 0, ACQUIRE)
    second = clusters.touch(0)
    clusters.release_acquire.update("b", 0, RELEASE)
    clusters.begin(2)
    clusters.release_acquire.update("b", 0, ACQUIRE)
    assert clusters.knows(0, 0, first) and clusters.knows(0, 1, second)


@pytest.mark.parametrize(
    ("fences", "seen"),
    [
        ("", False),
        ("early", False),
        ("late", False),
        ("writer", True),
        ("reader", True),
        ("peer", True),
        ("between", True),
    ],
)
def test_engines_see_what_a_fence_on_the_way_shows(fences, seen):
    def fence(who, thread):
        if fences == who:
            clusters.release_acquire.fence(thread)

    clusters = Clusters()
    fence("early", 5)
    write = clusters.touch(5)
    fence("writer", 5)
    clusters.clocks.synchronize_all()
    clusters.release_acquire.update("a", 0, RELEASE)
    fence("late", 5)
    clusters.begin(1)
    clusters.release_acquire.update("a", 0, ACQUIRE)
    fence("between", 0)
    clusters.release_acquire.update("b", 0, RELEASE)
    clusters.begin(2)
    fence("early", 1)
    clusters.release_acquire.update("b", 0, ACQUIRE)
    fence("reader", 0)
    clusters.clocks.synchronize(np.arange(2))
    fence("peer", 1)
    fence("late", 2)
    clusters.clocks.synchronize(np.arange(2))
    shown = clusters.release_acquire.visible_to_async_proxy(0, np.array([0, 0]), np.array([write, clusters.clocks.now << 32 | THREADS + 3]))
    assert [seen, True] == shown.tolist()


# -- programs of threads -----------------------------------------------------------------------------------------


def last_block_reads(threads, *, order=MemoryOrder.ACQ_REL, before=True, after=True):
    """The last block to take a number reads what the threads of all blocks wrote."""
    out, total = threads.tensor("out", (4, 64), "int32"), threads.tensor("total", (64,), "int32")
    numbers = threads.tensor("numbers", (1,), "int32")
    with threads.kernel(4) as (bx,):
        seen = threads.shared("seen", (1,), "int32")
        threads.store(out, (bx, threads.thread), bx + threads.thread)
        if before:
            threads.sync()
        mine = Var("mine", INT32)
        with threads.branch(threads.thread == 0):
            threads.emit(Atomic(AtomicOp.ADD, numbers, (as_expr(0),), as_expr(1, INT32), mine, order))
            threads.store(seen, (0,), mine)
            if not after:
                with threads.branch(mine == 3):
                    threads.store(total, (1,), threads.load(out, 2, 1))
        threads.sync()
        if after:
            with threads.branch(threads.load(seen, 0) == 3):
                there = 63 - threads.thread
                threads.store(
                    total, (there,), sum((threads.load(out, b, there) for b in range(1, 4)), threads.load(out, 0, there))
                )
    return np.zeros((4, 64), np.int32), np.zeros(64, np.int32), np.zeros(1, np.int32)


@pytest.mark.parametrize("seed", range(4))
def test_the_last_block_may_read_what_all_threads_wrote_before_one_took_a_number(threads, seed):
    out, total, numbers = last_block_reads(threads)
    threads.simulate(out, total, numbers, seed=seed)
    assert (total == 6 + 4 * np.arange(64)).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "wrong",
    [
        {"before": False},
        {"before": False, "after": False},
        {"order": MemoryOrder.RELAXED},
        {"order": MemoryOrder.RELEASE},
        {"order": MemoryOrder.ACQUIRE},
    ],
)
def test_without_the_barrier_or_the_order_it_is_a_race(threads, wrong, seed):
    arguments = last_block_reads(threads, **wrong)
    with pytest.raises(DataRace, match=r"out\[\d, \d+\] is written by block \d and read by block \d of one launch"):
        threads.simulate(*arguments, seed=seed)


# -- programs of blocks ------------------------------------------------------------------------------------------


def ticket_program(program, order, *, tile=False):
    out, total = program.tensor("out", (3,), "int32"), program.tensor("total", (1,), "int32")
    numbers = program.tensor("numbers", (2,), "int32")
    with program.launch(3) as (bx,):
        program.store(out, (bx,), bx + 1)
        mine = Var("mine", INT32)
        if tile:
            program.emit(AtomicTile(AtomicOp.ADD, as_expr(1), program.region(numbers), order))
            program.emit(Atomic(AtomicOp.LOAD, numbers, (as_expr(1),), None, mine, MemoryOrder.ACQUIRE))
        else:
            program.emit(Atomic(AtomicOp.ADD, numbers, (as_expr(1),), as_expr(1, INT32), mine, order))
        with program.branch(mine == (3 if tile else 2)):
            program.store(total, (0,), program.load(out, 0) + program.load(out, 1) + program.load(out, 2))
    return np.zeros(3, np.int32), np.zeros(1, np.int32), np.zeros(2, np.int32)


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("tile", [False, True])
def test_blocks_in_sequence_know_each_other_by_the_same_atomics(programs, seed, tile):
    for order in (MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST):
        program = programs[0]()
        out, total, numbers = ticket_program(program, order, tile=tile)
        program.run(out, total, numbers, seed=seed)
        assert 6 == total[0]
    for order in (MemoryOrder.RELAXED, MemoryOrder.ACQUIRE):
        program = programs[0]()
        arguments = ticket_program(program, order, tile=tile)
        with pytest.raises(DataRace, match="out"):
            program.run(*arguments, seed=seed)


def test_names_of_the_same_bytes_tell_the_same(program):
    out, numbers = program.tensor("out", (2,), "int32"), program.tensor("numbers", (4,), "int32")
    with program.launch(2) as (bx,):
        square = program.view(numbers, "square", (2, 2), "int32")
        before = Var("before", INT32)
        program.emit(Atomic(AtomicOp.ADD, numbers, (as_expr(3),), as_expr(1, INT32), before, MemoryOrder.ACQUIRE))
        with program.branch(before == 0):
            program.store(out, (0,), 5)
        with program.branch(before == 1):
            program.store(out, (1,), program.load(out, 0))
        program.emit(
            Atomic(AtomicOp.ADD, square, (as_expr(1), as_expr(1)), as_expr(0, INT32), None, MemoryOrder.RELEASE)
        )
    result = np.zeros(2, np.int32)
    program.run(result, np.zeros(4, np.int32))
    assert [5, 5] == result.tolist()
