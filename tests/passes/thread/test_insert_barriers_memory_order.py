"""Barriers before releases and after acquires: what a block publishes to other blocks is complete."""


import pytest
from barrier_programs import ACC, BX, G, S, T, barriers, c, index, is_barrier, placed, read, serial, write

from tilelang.dtypes import BOOL, FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Load, Var, as_expr
from tilelang.ir.stmt import (
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    For,
    If,
    MemoryOrder,
    Seq,
    Store,
    While,
)
from tilelang.ir.visit import walk
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, bulk_store, tma_store_wait

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
    told = update(MemoryOrder.RELAXED, 1, 0)
    assert not barriers(placed(spin, read(G, 0, T), write(G, 1, T), by_one(told)))
    assert 1 == len(barriers(placed(by_one(spin), read(G, 0, T), write(G, 1, T), by_one(told))))
    each = update(MemoryOrder.ACQUIRE, 0, T, op=AtomicOp.LOAD)
    assert 1 == len(barriers(placed(each, read(G, 0, T), write(G, 1, T), by_one(told))))
    changed = update(MemoryOrder.RELAXED, 0, 0)  # which the others shall not see yet
    assert 1 == len(barriers(placed(spin, by_one(changed))))
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
