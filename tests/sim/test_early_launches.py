"""Launches that begin before those in front of them have ended must wait before they touch what these may touch."""

import numpy as np
import pytest
from tensor_copies import HOPPER, Engine, plan_of, tensor_map

from tilelang.errors import DataRace
from tilelang.ir.expr import as_expr
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Atomic, AtomicOp
from tilelang.sim.clocks import Clocks
from tilelang.sim.early_launches import LaunchesInFront, Waits
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, tma_load, tma_store, tma_store_wait

FIRST = LaunchPlan(waits_first=True)
N = 32


def zeros(*shape):
    return np.zeros(shape, np.float32)


def test_a_thread_has_waited_if_it_did_or_if_the_wait_of_another_happened_before():
    clocks = Clocks(8)
    waits = Waits(clocks)
    assert 2 == waits.first_missing(np.array([2, 3]))
    waits.wait(np.array([2]))
    assert 3 == waits.first_missing(np.array([2, 3]))
    clocks.synchronize(np.array([2, 3]))
    assert waits.first_missing(np.array([2, 3])) is None
    assert 4 == waits.first_missing(np.array([3, 4]))
    waits.begin_blocks()
    assert 2 == waits.first_missing(np.array([2]))


def test_what_launches_in_front_did_decides_what_a_user_must_not_do_before_a_wait():
    launches, waits = LaunchesInFront(), Waits(Clocks(1))
    launches.end({"read": False, "written": True})
    launches.end({"written": False})
    assert launches.guard("new", waits, waits_first=False) is None
    found = {name: launches.guard(name, waits, waits_first=False).reads for name in ("read", "written")}
    assert {"read": False, "written": True} == found
    assert launches.guard("new", waits, waits_first=True).reads


# -- launches that wait first -----------------------------------------------------------------------------------------
def load(threads):
    a = threads.tensor("A", (N,))
    return lambda: threads.bind("x", threads.load(a, threads.thread))


def uniform_load(threads):
    a = threads.tensor("A", (N,))
    return lambda: threads.bind("x", threads.load(a, 0))


def store(threads):
    a = threads.tensor("A", (N,))
    return lambda: threads.store(a, (threads.thread,), 1)


def update(threads):
    a = threads.tensor("A", (N,))
    return lambda: threads.emit(Atomic(AtomicOp.ADD, a, (threads.thread,), as_expr(1.0)))


@pytest.mark.parametrize(("kind", "what"), [(load, "read"), (uniform_load, "read"), (store, "written"), (update, "written")])
def test_nothing_is_accessed_before(threads, kind, what):
    access = kind(threads)
    with threads.kernel(2, threads=N, plan=FIRST):
        with threads.branch(threads.thread < 3):
            threads.call(GRID_DEPENDENCY_WAIT)
        access()
    with pytest.raises(DataRace) as error:
        threads.simulate(zeros(N), arch=HOPPER)
    assert (
        f"A[{0 if kind is uniform_load else 3}] is {what} by thread 3 before it has waited for the launches in front, "
        "which may not have ended" == error.value.message
    )
    assert "let every thread execute T.pdl_sync() before it touches what other launches do" == error.value.hint


@pytest.mark.parametrize("kind", [load, uniform_load, store, update])
def test_everything_is_allowed_afterwards(threads, kind):
    access = kind(threads)
    with threads.kernel(1, threads=N, plan=FIRST):
        threads.call(GRID_DEPENDENCY_WAIT)
        access()
    threads.simulate(zeros(N), arch=HOPPER)


@pytest.mark.parametrize("synchronized", [True, False])
def test_a_barrier_shares_the_wait_of_one_thread(threads, synchronized):
    a = threads.tensor("A", (N,))
    with threads.kernel(1, threads=N, plan=FIRST):
        with threads.branch(threads.thread == 0):
            threads.call(GRID_DEPENDENCY_WAIT)
        if synchronized:
            threads.sync()
        threads.store(a, (threads.thread,), 1)
    if synchronized:
        threads.simulate(zeros(N), arch=HOPPER)
    else:
        with pytest.raises(DataRace, match="by thread 1 before it has waited"):
            threads.simulate(zeros(N), arch=HOPPER)


def test_each_block_waits(threads):
    a = threads.tensor("A", (2, N))
    with threads.kernel(2, threads=N, plan=FIRST) as (bx,):
        with threads.branch(bx == 0):
            threads.call(GRID_DEPENDENCY_WAIT)
        threads.store(a, (bx, threads.thread), 1)
    with pytest.raises(DataRace, match=r"A\[1, 0\] is written by thread 0 before it has waited"):
        threads.simulate(zeros(2, N), arch=HOPPER)


@pytest.mark.parametrize("place", ["before the load", "before the store", "never"])
def test_the_copy_engine_begins_behind_the_wait(threads, place):
    a, out = threads.tensor("A", (8, 32)), threads.tensor("out", (8, 32))
    engine, there, back = Engine(threads), tensor_map(a, (32, 8)), tensor_map(out, (32, 8))
    with threads.kernel(1, threads=64, plan=plan_of(there, back, waits_first=True)):
        tile, full = threads.shared("tile", (8 * 32,)), engine.barriers("full", 1)
        engine.init((full, 1))
        with engine.one():
            if place == "before the load":
                threads.call(GRID_DEPENDENCY_WAIT)
            engine.announce(full, 0, 8 * 32 * 4)
            threads.call(tma_load(2), threads.at(tile, 0), there.var, threads.at(full, 0), 0, 0)
        engine.wait(full, 0, 0)
        with engine.one(1):  # the phase tells it that thread 0 has waited
            if place == "before the store":
                threads.call(GRID_DEPENDENCY_WAIT)
            threads.call(tma_store(2), back.var, threads.at(tile, 0), 0, 0)
            threads.call(TMA_STORE_COMMIT)
            threads.call(tma_store_wait(0))
    data, result = np.arange(8 * 32, dtype=np.float32).reshape(8, 32), zeros(8, 32)
    if place == "before the load":
        threads.simulate(data, result, arch=HOPPER)
        np.testing.assert_array_equal(data, result)
        return
    with pytest.raises(DataRace) as error:
        threads.simulate(data, result, arch=HOPPER)
    assert error.value.message.startswith("A[0, 0] is read by thread 0 before it has waited")


def test_a_store_of_the_copy_engine_needs_a_wait(threads):
    out = threads.tensor("out", (8, 32))
    back = tensor_map(out, (32, 8))
    with threads.kernel(1, threads=32, plan=plan_of(back, waits_first=True)):
        tile = threads.shared("tile", (8 * 32,))
        with threads.serial(0, 8) as i:
            threads.store(tile, (i * 32 + threads.thread,), 1)
        Engine(threads).fence()
        threads.sync()
        with threads.branch(threads.thread == 5):
            threads.call(tma_store(2), back.var, threads.at(tile, 0), 0, 0)
            threads.call(TMA_STORE_COMMIT)
            threads.call(tma_store_wait(0))
    with pytest.raises(DataRace, match=r"out\[0, 0\] is written by thread 5 before it has waited"):
        threads.simulate(zeros(8, 32), arch=HOPPER)


def test_an_asynchronous_copy_of_a_thread_begins_behind_its_wait(threads):
    a = threads.tensor("A", (N * 4,))
    with threads.kernel(1, threads=N, plan=FIRST):
        tile = threads.shared("tile", (N * 4,))
        at = threads.thread * 4
        threads.call(cp_async(16), threads.at(tile, at), threads.at(a, at), True)
        threads.call(CP_ASYNC_COMMIT)
        threads.call(GRID_DEPENDENCY_WAIT)
        threads.call(CP_ASYNC_WAIT, 0)
    with pytest.raises(DataRace, match=r"A\[0\] is read by thread 0 before it has waited"):
        threads.simulate(zeros(N * 4), arch=HOPPER)


# -- launches that wait where the user says so ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("reads", "writes", "wrong"),
    [("B", "D", "B[0] is read"), ("A", "A", "A[0] is written"), ("A", "B", "B[0] is written"), ("A", "D", ""), ("C", "D", "")],
)
def test_before_the_users_wait_nothing_conflicts_with_launches_in_front(threads, reads, writes, wrong):
    tensors = {name: threads.tensor(name, (N,)) for name in "ABCD"}
    place = (threads.thread,)
    with threads.kernel(1, threads=N):
        threads.store(tensors["B"], place, threads.load(tensors["A"], *place))
    with threads.kernel(1, threads=N):
        threads.store(tensors[writes], place, threads.load(tensors[reads], *place))
        threads.call(GRID_DEPENDENCY_WAIT)
        threads.store(tensors["B"], place, threads.load(tensors["B"], *place))
    arrays = [zeros(N) for _ in tensors]
    if not wrong:
        threads.simulate(*arrays, arch=HOPPER)
        return
    with pytest.raises(DataRace, match=wrong.replace("[", r"\[") + " by thread 0 before it has waited"):
        threads.simulate(*arrays, arch=HOPPER)


def test_a_launch_without_a_wait_begins_behind_all_others(threads):
    a = threads.tensor("A", (N,))
    for _ in range(2):
        with threads.kernel(1, threads=N):
            threads.store(a, (threads.thread,), threads.load(a, threads.thread) + 1)
    array = zeros(N)
    threads.simulate(array, arch=HOPPER)
    np.testing.assert_array_equal(2, array)
