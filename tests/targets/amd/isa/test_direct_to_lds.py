"""Loads to LDS: where their pieces land, and when they are there."""

import numpy as np
import pytest
from by_hand import ThreadProgram
from thread_kernels import buffer

from tilelang.dtypes import INT32
from tilelang.errors import DataRace, NoLowering, ReadBeforeWrite, SimulationError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Var, binary, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import CallStmt, For, ForKind
from tilelang.ir.visit import variables_of
from tilelang.targets.amd.isa.barriers import S_BARRIER
from tilelang.targets.amd.isa.direct_to_lds import (
    DIRECT_LOADS,
    direct_to_lds,
    directly_loaded,
    from_buffer,
    several_loads,
)
from tilelang.targets.amd.isa.wait_counters import WAIT_FOR_DIRECT_LOADS, Counters, wait_for_loads

LOAD = DIRECT_LOADS[4]
THREADS = 128


@pytest.fixture
def threads():
    return ThreadProgram()


def ramp(n=THREADS):
    return np.arange(n, dtype=np.float32)


def load(p, *, wait=0, keep=True, barrier=True, place=None, source=None, read=0, arch="gfx942", **options):
    """Every thread loads one element; after wait and barrier it reads one of the tile."""
    a, out = p.tensor("A", (THREADS,)), p.tensor("out", (THREADS,))
    t = p.thread
    with p.kernel(1, threads=THREADS):
        tile = p.shared("tile", (THREADS + 64,))
        p.call(LOAD, p.at(tile, t if place is None else place(t)), p.at(a, t if source is None else source(t)), keep if keep is True else keep(t))
        if wait is not None:
            p.call(WAIT_FOR_DIRECT_LOADS, wait)
        if barrier:
            p.call(S_BARRIER)
        p.store(out, (t,), p.load(tile, (t + read) % THREADS) + 0)
    result = np.zeros(THREADS, np.float32)
    p.simulate(ramp(), result, arch=arch, **options)
    return result


def swapped(t):
    """The neighbor with which lanes exchange."""
    return binary(BinaryOp.BITXOR, t, const(1, t.dtype))


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_what_was_loaded_is_there_after_wait_and_barrier(threads, lazy, seed):
    np.testing.assert_array_equal(np.roll(ramp(), -70), load(threads, read=70, lazy=lazy, seed=seed))


@pytest.mark.parametrize("change", [{"wait": None}, {"wait": 1}])
def test_without_its_wait_it_has_not_landed(threads, change):
    with pytest.raises(ReadBeforeWrite, match="may still be in flight"):
        load(threads, **change)


def test_other_waves_see_it_only_after_a_barrier(threads):
    with pytest.raises((DataRace, ReadBeforeWrite)):
        load(threads, barrier=False, read=64)


def test_a_wave_sees_its_own_loads_without_a_barrier(threads):
    np.testing.assert_array_equal(ramp(), load(threads, barrier=False))


def test_lanes_may_read_anywhere(threads):
    expected = ramp().reshape(-1, 2)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(expected, load(threads, source=swapped))


def test_lanes_without_a_source_load_zeros(threads):
    np.testing.assert_array_equal(np.where(ramp() < 50, ramp(), 0), load(threads, keep=lambda t: t < 50))


@pytest.mark.parametrize("place", [lambda t: swapped(t), lambda t: t // 2 * 2, lambda t: t + t // 32])
def test_lanes_cannot_scatter(threads, place):
    with pytest.raises(SimulationError, match="the lanes of a wave fill successive pieces"):
        load(threads, place=place)


def test_a_wave_of_whom_lane_0_is_elsewhere_has_no_address(threads):
    a, t = threads.tensor("A", (64,)), threads.thread
    with threads.kernel(1, threads=64):
        tile = threads.shared("tile", (64,))
        with threads.branch(t > 3):
            threads.call(LOAD, threads.at(tile, t), threads.at(a, t), True)
    with pytest.raises(SimulationError, match="lane 0 of warp 0 does not execute it"):
        threads.simulate(ramp(64), arch="gfx942")


def test_a_wave_counts_its_loads_whichever_lanes_are_active(threads):
    """Lanes that load less wait for as many loads of the wave, not of their own."""
    a, out, t = threads.tensor("A", (3, 64)), threads.tensor("out", (64,)), threads.thread
    with threads.kernel(1, threads=64):
        tile = threads.shared("tile", (3, 64))
        threads.call(LOAD, threads.at(tile, 0, t), threads.at(a, 0, t), True)
        threads.call(LOAD, threads.at(tile, 1, t), threads.at(a, 1, t), True)
        with threads.branch(t < 32):
            threads.call(LOAD, threads.at(tile, 2, t), threads.at(a, 2, t), True)
        threads.call(WAIT_FOR_DIRECT_LOADS, 2)
        threads.store(out, (t,), threads.load(tile, 0, t) + 0)
    result = np.zeros(64, np.float32)
    threads.simulate(ramp(192).reshape(3, 64), result, arch="gfx942")
    np.testing.assert_array_equal(ramp(64), result)


def pipeline(p, pending, loads=2):
    """Two tiles of several loads each, one tile ahead; reads each tile after a wait that leaves `pending` loads."""
    a, out, t = p.tensor("A", (4, loads, 64)), p.tensor("out", (4, 64)), p.thread

    def fill(ring, k):
        for n in range(loads):
            p.call(LOAD, p.at(ring, k % 2, n, t), p.at(a, k, n, t), k < 4)

    with p.kernel(1, threads=64):
        ring = p.shared("ring", (2, loads, 64))
        fill(ring, const(0, t.dtype))
        with p.serial(0, 4) as k:
            fill(ring, k + 1)
            p.call(WAIT_FOR_DIRECT_LOADS, pending)
            p.store(out, (k, t), p.load(ring, k % 2, 0, t) + p.load(ring, k % 2, loads - 1, t))
    values = ramp(4 * loads * 64).reshape(4, loads, 64)
    result = np.zeros((4, 64), np.float32)
    p.simulate(values, result, arch="gfx942")
    np.testing.assert_array_equal(values[:, 0] + values[:, -1], result)


@pytest.mark.parametrize("pending", [0, 1, 2])
def test_a_wait_leaves_the_newest_loads_in_flight(threads, pending):
    pipeline(threads, pending)


def test_a_wait_that_counts_one_load_too_many_is_reported(threads):
    with pytest.raises(ReadBeforeWrite, match="may still be in flight"):
        pipeline(threads, 3)


def test_a_wait_for_all_loads_covers_them(threads):
    a, out, t = threads.tensor("A", (64,)), threads.tensor("out", (64,)), threads.thread
    with threads.kernel(1, threads=64):
        tile = threads.shared("tile", (64,))
        threads.call(LOAD, threads.at(tile, t), threads.at(a, t), True)
        threads.call(wait_for_loads(Counters.LOADS_AND_STORES))
        threads.store(out, (t,), threads.load(tile, t) + 0)
    result = np.zeros(64, np.float32)
    threads.simulate(ramp(64), result, arch="gfx942")
    np.testing.assert_array_equal(ramp(64), result)


def test_there_are_loads_of_4_and_16_bytes():
    assert "global_load_lds_dwordx4" in direct_to_lds(16).helpers["hip"].text
    with pytest.raises(NoLowering, match="4 or 16 bytes a lane, not 8"):
        direct_to_lds(8)


def loop_of(step=512, count=4, kind=ForKind.UNROLLED, size=16):
    """Loads of a wave, each so many elements of a tile after the other."""
    i, thread = (Var(name, INT32, index=True) for name in ("i", "thread"))
    tile, a = (buffer(name, (8192,), "float16", scope) for name, scope in (("tile", Scope.SHARED), ("A", Scope.GLOBAL)))
    at = thread * 8 + i * step
    load = CallStmt(direct_to_lds(size), (Region(tile, (at,), ()), Region(a, (at,), ()), i < 3))
    return For(i, const(0, INT32), const(count, INT32), 1, kind, load)


def test_loads_that_fill_successive_pieces_are_found():
    loop = loop_of()
    loads = several_loads(loop)
    assert (4, 1024) == (loads.count, loads.piece)
    assert loads.keep is loop.body.args[2] and directly_loaded(loads.first) is directly_loaded(loop.body)
    assert loop.var not in variables_of(loads.first.args[0].start[0])


@pytest.mark.parametrize("change", [{"step": 2048}, {"count": 5}, {"count": 1}, {"kind": ForKind.SERIAL}, {"size": 4}])
def test_other_loops_are_not(change):
    assert several_loads(loop_of(**change)) is None


def test_other_statements_load_nothing_directly():
    assert directly_loaded(loop_of()) is None
    assert directly_loaded(CallStmt(S_BARRIER, ())) is None


@pytest.mark.parametrize("count", [1, 4])
def test_one_write_of_m0_serves_several_loads_from_a_buffer(count):
    text = from_buffer(DIRECT_LOADS[16], count).text
    assert 1 == text.count("s_mov_b32 m0") == text.count("s_nop 0")
    assert count == text.count("buffer_load_dwordx4 %")
    assert [f"offset:{1024 * n} lds" in text for n in range(1, 4)] == [n < count for n in range(1, 4)]
