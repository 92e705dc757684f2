"""Programs for a machine whose warps have 64 threads: instructions, divergence, barriers and races."""

import dataclasses
import functools

import numpy as np
import pytest

from tilelang.dtypes import FLOAT32, SCALARS
from tilelang.errors import BarrierDivergence, DataRace, ReadBeforeWrite
from tilelang.ir.expr import Const, Var, cast
from tilelang.isa.instruction import AsyncUnit, Completion, Effect, ExecutionScope, Instruction
from tilelang.sim.counters import Counters
from tilelang.targets.gpu.isa.sync import SYNC_WARP
from tilelang.targets.gpu.isa.warp import shuffle
from tilelang.targets.registry import family_of

SIZE = 64
MASK = SCALARS["uint64"]
EVERYONE = Const(2**64 - 1, MASK)


def wide(simulate, result=None, **facts):
    """An instruction of the machine."""
    return Instruction("wide", {}, {}, simulate, execution_scope=ExecutionScope.WARP, result=result, **facts)


def vote(warp, predicate):
    """The mask of active lanes in which a predicate holds."""
    bits = (predicate.astype(bool) & warp.active).astype(np.uint64) << warp.lane.astype(np.uint64)
    return np.full(warp.size, np.bitwise_or.reduce(bits))


EXCHANGE = shuffle("xor", FLOAT32)
VOTE = wide(vote, MASK)


@pytest.fixture
def run(threads, monkeypatch):
    """Runs the program on a machine whose warps have 64 threads."""
    machines = family_of("cuda").machines
    monkeypatch.setitem(machines, "wide", dataclasses.replace(machines["sm_90a"], name="wide", warp_size=SIZE))
    return functools.partial(threads.simulate, arch="wide")


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def sum_of_warp(p, value):
    """The sum of a value over the lanes of a warp, in each of them."""
    total = p.var("total", init=value)
    for offset in (32, 16, 8, 4, 2, 1):
        other = Var("other", FLOAT32)
        p.call(EXCHANGE, EVERYONE, p.load(total), offset, SIZE, result=other)
        p.store(total, (), p.load(total) + other)
    return p.load(total)


def test_a_block_has_warps_of_64_threads(threads, run):
    out, seen = threads.tensor("out", (150,)), []
    with threads.kernel(1, threads=150):
        threads.call(wide(lambda warp: seen.append((warp.index, warp.size, int(warp.active.sum())))))
        threads.store(out, (threads.thread,), threads.thread)
    result, counters = zeros(150), Counters()
    run(result, report=counters)
    np.testing.assert_array_equal(result, np.arange(150))
    assert [(0, 64, 64), (1, 64, 64), (2, 64, 22)] == sorted(seen)
    assert 3 == counters.warps


@pytest.mark.parametrize("seed", range(3))
def test_a_sum_over_all_threads_of_a_block(threads, run, seed):
    a, out = threads.tensor("A", (2, 192)), threads.tensor("out", (2,))
    t = threads.thread
    with threads.kernel(2, threads=192) as (bx,):
        parts = threads.shared("parts", (3,))
        total = sum_of_warp(threads, threads.load(a, bx, t))
        with threads.branch(t % SIZE == 0):
            threads.store(parts, (t // SIZE,), total)
        threads.sync()
        with threads.branch(t == 0):
            threads.store(out, (bx,), threads.load(parts, 0) + threads.load(parts, 1) + threads.load(parts, 2))
    values, result = np.arange(384, dtype=np.float32).reshape(2, 192), zeros(2)
    run(values, result, seed=seed)
    np.testing.assert_array_equal(result, values.sum(axis=1))


def test_lanes_diverge_and_join_again(threads, run):
    out = threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1, threads=64):
        count = threads.var("count", init=0.0)
        with threads.serial(0, t % 5 + 1):
            threads.store(count, (), threads.load(count) + 1.0)
        with threads.branch(t >= 40):
            threads.store(count, (), threads.load(count) * 100.0)
        threads.store(out, (t,), threads.load(count))
    result = zeros(64)
    run(result)
    lanes = np.arange(64)
    np.testing.assert_array_equal(result, (lanes % 5 + 1) * np.where(lanes >= 40, 100, 1))


def test_a_mask_has_a_bit_for_each_of_64_lanes(threads, run):
    out, votes = threads.tensor("out", (64,)), threads.tensor("votes", (64,), "uint64")
    t = threads.thread
    with threads.kernel(1, threads=64), threads.branch(t >= 40):
        mask, taken = Var("mask", MASK), Var("taken", FLOAT32)
        threads.call(VOTE, t >= 0, result=mask)
        threads.call(EXCHANGE, mask, cast(t, FLOAT32), 1, SIZE, result=taken)
        threads.store(votes, (t,), mask)
        threads.store(out, (t,), taken)
    result, masks = zeros(64), zeros(64, dtype=np.uint64)
    run(result, masks)
    np.testing.assert_array_equal(result[40:], np.arange(40, 64) ^ 1)
    assert {0, (1 << 64) - (1 << 40)} == set(masks.tolist())


def test_lanes_that_a_mask_names_must_come(threads, run):
    t = threads.thread
    with threads.kernel(1, threads=64), threads.branch(t < 40):
        threads.call(EXCHANGE, EVERYONE, cast(t, FLOAT32), 1, SIZE, result=Var("taken", FLOAT32))
    with pytest.raises(BarrierDivergence) as error:
        run()
    assert (
        "shuffle xor: lanes 0-39 of warp 0 execute it together, but their mask names lanes 0-63" == error.value.message
    )


@pytest.mark.parametrize("half", ["one half", "both"])
def test_halves_of_a_warp_meet_under_masks_of_their_own(threads, run, half):
    """The upper 32 lanes know nothing of the lower ones, unless they name them."""
    out = threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1, threads=64):
        tile = threads.shared("tile", (64,))
        threads.store(tile, (t,), t)
        if half == "both":
            threads.call(SYNC_WARP, EVERYONE)
        else:
            with threads.branch(t < 32):
                threads.call(SYNC_WARP, Const(2**32 - 1, MASK))
            with threads.branch(t >= 32):
                threads.call(SYNC_WARP, Const(2**64 - 2**32, MASK))
        threads.store(out, (t,), threads.load(tile, 63 - t))
    result = zeros(64)
    if half == "both":
        run(result)
        np.testing.assert_array_equal(result, np.arange(64)[::-1])
    else:
        with pytest.raises(DataRace):
            run(result)


@pytest.mark.parametrize(("threads_of_block", "hint"), [(64, "T.sync_warp() or T.sync_threads()"), (128, "T.sync_threads()")])
def test_races_are_found_within_a_warp_and_between_warps(threads, run, threads_of_block, hint):
    t = threads.thread
    with threads.kernel(1, threads=threads_of_block):
        tile = threads.shared("tile", (threads_of_block,))
        threads.store(tile, (t,), t)
        threads.store(tile, (threads_of_block - 1 - t,), t + 1000)
    with pytest.raises(DataRace) as error:
        run()
    assert f"put {hint} between the two" == error.value.hint


def test_some_warps_meet_at_a_barrier_of_theirs(threads, run):
    out = threads.tensor("out", (128,))
    t = threads.thread
    pair = wide(lambda warp: warp.barrier_sync(1, 128), effect=Effect.SYNC_SOME)
    with threads.kernel(1, threads=192):
        tile = threads.shared("tile", (128,))
        with threads.branch(t < 128):
            threads.store(tile, (t,), t)
            threads.call(pair)
            threads.store(out, (t,), threads.load(tile, 127 - t))
    result = zeros(128)
    run(result)
    np.testing.assert_array_equal(result, np.arange(128)[::-1])


def test_barriers_count_whole_warps(threads, run):
    with threads.kernel(1, threads=128):
        threads.call(wide(lambda warp: warp.barrier_sync(1, 96), effect=Effect.SYNC_SOME))
    with pytest.raises(BarrierDivergence, match="a barrier counts whole warps of 64 threads"):
        run()


@pytest.mark.parametrize("waits", [True, False])
def test_each_lane_waits_for_its_own_asynchronous_work(threads, run, waits):
    unit = AsyncUnit("copies", Completion.GROUPS, per_thread=True)

    def start(warp, target, source):
        active = warp.active.copy()
        warp.defer(unit, lambda: warp.write(target, warp.read(source, where=active), where=active))
        warp.commit(unit)

    out, t = threads.tensor("out", (64,)), threads.thread
    with threads.kernel(1, threads=64):
        tile = threads.shared("tile", (64,))
        threads.call(wide(start, async_unit=unit), threads.at(tile, t), threads.at(out, t))
        if waits:
            threads.call(wide(lambda warp: warp.wait(unit, 0), async_unit=unit, effect=Effect.WAIT, pending=0))
        threads.store(out, (t,), threads.load(tile, t) + 1)
    result = np.arange(64, dtype=np.float32)
    if waits:
        run(result)
        np.testing.assert_array_equal(result, np.arange(64) + 1)
    else:
        with pytest.raises(ReadBeforeWrite, match="while an asynchronous copy of thread 0"):
            run(result)


def test_blocks_of_a_cluster_have_whole_warps_of_their_own(threads, run):
    """Blocks of 96 threads, a warp and a half: the second warp of the first one is none of the second block."""
    out = threads.tensor("out", (2, 96))
    t = threads.thread
    peer = wide(lambda warp, place: warp.in_block(1 - warp.rank).read(place)[:, 0], FLOAT32)
    meet = [wide(lambda warp: warp.cluster_arrive(release=True)), wide(lambda warp: warp.cluster_wait())]
    with threads.kernel(2, threads=96, cluster=(2, 1, 1)) as (bx,):
        tile, value = threads.shared("tile", (96,)), Var("value", FLOAT32)
        threads.store(tile, (t,), bx * 1000 + t)
        for instruction in meet:
            threads.call(instruction)
        threads.call(peer, threads.at(tile, 95 - t), result=value)
        for instruction in meet:
            threads.call(instruction)
        threads.store(out, (bx, t), value)
    result = zeros(2, 96)
    run(result)
    np.testing.assert_array_equal(result, np.stack([1000 + np.arange(96)[::-1], np.arange(96)[::-1]]))
