"""Barriers of two groups of waves, one of which is a phase behind the other."""

import numpy as np
import pytest
from by_hand import ThreadProgram
from hip_kernels import ARCHES, needs_clang

from tilelang.errors import BarrierDivergence, DataRace, ReadBeforeWrite
from tilelang.targets.amd.backend import BACKEND
from tilelang.targets.amd.isa.ping_pong import begin_ping_pong, end_phase, end_ping_pong, instructions
from tilelang.targets.amd.isa.wait_counters import Counters
from tilelang.targets.amd.runtime.device_code import build

GFX9 = Counters.LOADS_AND_STORES
ROUNDS = 3


def exchange(phases, *, begin=True, end=True):
    """Each wave fills a part of a tile, then reads that of the other wave; `phases` barriers lie in between."""
    p = ThreadProgram()
    a, out, t = p.tensor("A", (ROUNDS, 128)), p.tensor("out", (ROUNDS, 128)), p.thread
    with p.kernel(1, threads=128):
        tile = p.shared("tile", (128,))
        if begin:
            p.call(begin_ping_pong(GFX9), t >= 64)
        with p.serial(0, ROUNDS) as k:
            p.store(tile, (t,), p.load(a, k, t) + 0)
            for _ in range(phases):
                p.call(end_phase(GFX9))
            p.store(out, (k, t), p.load(tile, (t + 64) % 128) + 0)
            for _ in range(phases):
                p.call(end_phase(GFX9))
        if end:
            p.call(end_ping_pong(GFX9), t >= 64)
    return p


def simulate(program, seed):
    values = np.arange(ROUNDS * 128, dtype=np.float32).reshape(ROUNDS, 128)
    result = np.zeros_like(values)
    program.simulate(values, result, arch="gfx942", seed=seed)
    np.testing.assert_array_equal(np.roll(values, -64, axis=1), result)


@pytest.mark.parametrize("seed", range(3))
def test_two_turns_order_what_different_groups_access(seed):
    simulate(exchange(2), seed)


@pytest.mark.parametrize("seed", range(3))
def test_one_turn_does_not(seed):
    with pytest.raises((DataRace, ReadBeforeWrite)):
        simulate(exchange(1), seed)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_late_group_one_turn_is_a_barrier(seed):
    simulate(exchange(1, begin=False, end=False), seed)


@pytest.mark.parametrize("without", ["begin", "end"])
def test_waves_arrive_equally_often(without):
    with pytest.raises(BarrierDivergence):
        simulate(exchange(2, **{without: False}), 0)


@needs_clang
@pytest.mark.parametrize("arch", [ARCHES[0], ARCHES[3], ARCHES[-1]])
def test_waves_branch_as_a_whole(arch):
    """A barrier of a wave counts whichever lanes are active, so that a branch by lanes would not skip it."""
    counters = {"gfx90a": GFX9, "gfx1100": Counters.SEPARATE_STORES, "gfx1201": Counters.ALL_SEPARATE}[arch]
    p = ThreadProgram()
    a, t = p.tensor("A", (256,)), p.thread
    with p.kernel(1, threads=256):
        p.call(begin_ping_pong(counters), t >= 128)
        p.store(a, (t,), 1.0)
        p.call(end_phase(counters))
        p.call(end_ping_pong(counters), t >= 128)
    assembly = build(BACKEND.emit(p.finish()), arch, "clang").assembly()
    assert "s_barrier" in assembly
    assert "s_cbranch_exec" not in assembly
    assert "saveexec" not in assembly


def test_there_is_one_of_each_per_generation_of_counters():
    assert 3 * len(Counters) == len({id(instruction) for instruction in instructions()})
