"""Accesses that a warp has not waited for, and barriers that do not wait for them."""

import numpy as np
import pytest

from tilelang.errors import DataRace
from tilelang.isa.instruction import Effect, ExecutionScope, Instruction


def _join(warp):
    yield from warp.barrier_join()


JOIN = Instruction("join", {}, {}, _join, execution_scope=ExecutionScope.BLOCK, effect=Effect.JOIN_BLOCK)
WAIT = Instruction("wait", {}, {}, lambda warp: warp.retire("shared"), effect=Effect.FENCE)
WAIT_LOADS = Instruction("wait", {}, {}, lambda warp: warp.retire("shared", ("load",)), effect=Effect.FENCE)


def written_then_read(p, *between, other=32):
    """Every thread writes an element and reads that of another one."""
    out, t = p.tensor("out", (64,)), p.thread
    with p.kernel(1):
        tile = p.shared("tile", (64,))
        p.store(tile, (t,), t + 0.0)
        for instruction in between:
            p.call(instruction)
        p.store(out, (t,), p.load(tile, (t + other) % 64) + 0)
    result = np.zeros(64, np.float32)
    p.simulate(result)
    np.testing.assert_array_equal((np.arange(64) + other) % 64, result)


@pytest.mark.parametrize("between", [(WAIT, JOIN), (WAIT, JOIN, JOIN)])
def test_what_was_waited_for_is_ordered(threads, between):
    written_then_read(threads, *between)


@pytest.mark.parametrize("between", [(JOIN,), (JOIN, JOIN), (JOIN, WAIT), (WAIT_LOADS, JOIN)])
def test_what_was_not_waited_for_may_take_place_after_the_barrier(threads, between):
    with pytest.raises(DataRace, match="written by thread"):
        written_then_read(threads, *between)


def test_the_barrier_after_a_late_wait_orders_it(threads):
    written_then_read(threads, JOIN, WAIT, JOIN)


def test_a_warp_is_ordered_after_its_own_accesses(threads):
    """Lanes of one warp exchange elements; the barrier that all warps pass does not take that order away."""
    written_then_read(threads, JOIN, other=0)


def test_a_read_that_may_be_late_conflicts_with_the_next_write(threads):
    p, out, t = threads, threads.tensor("out", (64,)), threads.thread
    with p.kernel(1):
        tile = p.shared("tile", (64,))
        p.store(tile, (t,), 1.0)
        p.sync()
        p.store(out, (t,), p.load(tile, (t + 32) % 64) + 0)
        p.call(JOIN)
        p.store(tile, (t,), 2.0)
    with pytest.raises(DataRace, match=r"read by thread \d+ and written by thread \d+"):
        p.simulate(np.zeros(64, np.float32))


def test_a_barrier_that_waits_for_memory_orders_what_another_did_not(threads):
    p, out, t = threads, threads.tensor("out", (64,)), threads.thread
    with p.kernel(1):
        tile = p.shared("tile", (64,))
        p.store(tile, (t,), t + 0.0)
        p.call(JOIN)
        p.sync()
        p.store(out, (t,), p.load(tile, (t + 32) % 64) + 0)
    p.simulate(np.zeros(64, np.float32))
