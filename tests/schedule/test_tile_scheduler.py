"""Persistent blocks that take tiles of different work from a counter."""

import functools

import attention_programs
import numpy as np
import pytest
from specialized import TARGET, launch_of, lowered, warp_specialize

import tilelang
from tilelang.ir.pipeline import Acquire, Commit, Release, Wait
from tilelang.ir.stmt import Atomic, Break, Launch, Store
from tilelang.ir.visit import walk
from tilelang.schedule.tile_scheduler import TileScheduler
from tilelang.sim.run import simulate

LENGTH = 192  # three tiles of different work for each of two heads


def causal(length=LENGTH, rows=64, heads=2):
    return attention_programs.flash(heads, length, 64, rows, 64, causal=True, threads=2 * rows)


@functools.cache
def shared_by(blocks):
    """The program of so many blocks that take tiles from one counter."""
    return lowered(causal(), blocks=blocks, persistent=True)


def simulated(made, length=LENGTH, heads=2, *, lazy=False, seed=0):
    q, k, v = np.random.default_rng(seed).standard_normal((3, heads, length, 64)).astype(np.float16)
    out = np.full_like(q, np.nan)
    simulate(made, [q, k, v, out], target=TARGET, lazy=lazy, seed=seed)
    np.testing.assert_allclose(out, attention_programs.attention(q, k, v, True), rtol=1e-2, atol=1e-2)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("blocks", "lazy", "seed"), [(1, False, 0), (2, True, 1), (5, True, 0)])
def test_any_number_of_blocks_computes_all_tiles(blocks, lazy, seed):
    simulated(shared_by(blocks), lazy=lazy, seed=seed)


def test_three_warpgroups_take_tiles_together():
    simulated(lowered(causal(384, 192, heads=1), blocks=1, persistent=True), 384, heads=1)


def test_a_kernel_of_its_own_resets_the_counter():
    made = warp_specialize(causal(), persistent=True)
    reset, _ = [s for s in walk(made.body) if isinstance(s, Launch)]
    (store,) = [s for s in walk(reset) if isinstance(s, Store)]
    (taken,) = [s for s in walk(made.body) if isinstance(s, Atomic)]
    assert "tile_counter" == store.buffer.name == taken.buffer.name


def test_decisions_are_about_the_users_kernel():
    target = {"target": {"kind": "cuda", "arch": "sm_90a"}, "execution_backend": "simulator"}
    explained = tilelang.compile(causal(), pass_configs={"tl.persistent": True}, **target).explain()
    assert "kernel 1: 160 threads" in explained and "kernel 2" not in explained
    assert "as they become idle" in explained
    (saved,) = [line.removeprefix("schedule: ") for line in explained.splitlines() if line.startswith("schedule: ")]
    assert saved in tilelang.compile(causal(), pass_configs={"tl.schedule": saved}, **target).explain()


def test_tiles_of_the_same_work_are_counted_by_each_block():
    made = warp_specialize(attention_programs.flash(2, 320, 64, 64, 64), persistent=True)
    assert not any(isinstance(s, Atomic) for s in walk(launch_of(made)))


def without(kind, position):
    """A method whose result lacks one of its statements of a kind."""

    def change(original):
        def changed(self, *args):
            found = original(self, *args)
            chosen = [s for s in found if kind(s)][position]
            return [s for s in found if s is not chosen]

        return changed

    return change


def is_a(kind):
    return lambda s: isinstance(s, kind)


def is_exit(s):
    return any(isinstance(each, Break) for each in walk(s))


FAULTS = {
    "the producer does not wait for a slot": ("take", without(is_a(Acquire), 0)),
    "the producer does not announce a number": ("take", without(is_a(Commit), 0)),
    "the producer does not pass its number on": ("take", without(is_a(Store), 0)),
    "the producer does not exit": ("take", without(is_exit, 0)),
    "the producer takes no further number": ("take", without(is_a(Store), 1)),
    "consumers do not wait for a number": ("receive", without(is_a(Wait), 0)),
    "consumers do not free a slot": ("receive", without(is_a(Release), 0)),
    "consumers do not exit": ("receive", without(is_exit, 0)),
    "the counter is not reset": ("reset", lambda original: lambda self: original(self)[:1]),
}


@pytest.mark.slow(every=6)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_verifier_or_the_simulator_finds_faults(fault, monkeypatch):
    method, change = FAULTS[fault]
    monkeypatch.setattr(TileScheduler, method, change(getattr(TileScheduler, method)))
    with pytest.raises((tilelang.errors.SimulationError, tilelang.errors.CompilerBug, AssertionError)):
        simulated(lowered(causal(128), blocks=2, persistent=True), 128)
