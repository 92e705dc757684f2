"""Fences between threads and the copy engine, which sees memory by another way."""

import numpy as np
import pytest
from tensor_copies import HOPPER, Engine, plan_of, tensor_map

from tilelang.errors import MissingProxyFence
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC_GLOBAL
from tilelang.targets.nvidia.isa.tma import tma_load


def filled(p, *, fence, first=True):
    """Threads write a tile by ordinary stores, and then a box is loaded into it."""
    engine, t = Engine(p), p.thread
    a, out = p.tensor("A", (64,), "float32"), p.tensor("out", (64,), "float32")
    there = tensor_map(a, (64,))
    with p.kernel(1, plan=plan_of(there)):
        tile, bar = p.shared("tile", (64,), "float32"), engine.barriers("full", 1)
        engine.init((bar, 1), fence=first)
        p.store(tile, (t,), 0)
        if fence:
            engine.fence()
        p.sync()
        with engine.one():
            engine.announce(bar, 0, 256)
            p.call(tma_load(1), p.at(tile, 0), there.var, p.at(bar, 0), 0)
        engine.wait(bar, 0, 0)
        p.store(out, (t,), p.load(tile, t))


def test_a_load_over_what_threads_wrote_needs_their_fence(threads, programs):
    filled(threads, fence=True)
    out = np.zeros(64, np.float32)
    threads.simulate(np.arange(64, dtype=np.float32), out, arch=HOPPER)
    np.testing.assert_array_equal(out, np.arange(64))
    other = programs[1]()
    filled(other, fence=False)
    with pytest.raises(MissingProxyFence, match="is written by an asynchronous copy"):
        other.simulate(np.zeros(64, np.float32), np.zeros(64, np.float32), arch=HOPPER)


def test_a_barrier_is_initialized_before_a_fence(threads):
    filled(threads, fence=False, first=False)
    with pytest.raises(MissingProxyFence) as error:
        threads.simulate(np.zeros(64, np.float32), np.zeros(64, np.float32), arch=HOPPER)
    assert error.value.message.startswith(("full[0] was written by thread 0 and is updated", "tile["))


@pytest.mark.parametrize("fence", [False, True])
def test_what_a_block_wrote_to_global_memory_needs_a_fence_as_well(threads, fence):
    p, engine, t = threads, Engine(threads), threads.thread
    a, out = p.tensor("A", (64,), "float32"), p.tensor("out", (64,), "float32")
    there = tensor_map(a, (64,))
    with p.kernel(1, plan=plan_of(there)):
        tile, bar = p.shared("tile", (64,), "float32"), engine.barriers("full", 1)
        engine.init((bar, 1))
        p.store(a, (t,), t + 1)
        if fence:
            p.call(FENCE_PROXY_ASYNC_GLOBAL)
        p.sync()
        with engine.one():
            engine.announce(bar, 0, 256)
            p.call(tma_load(1), p.at(tile, 0), there.var, p.at(bar, 0), 0)
        engine.wait(bar, 0, 0)
        p.store(out, (t,), p.load(tile, t))
    out = np.zeros(64, np.float32)
    if not fence:
        with pytest.raises(MissingProxyFence, match=r"A\[0\] was written by thread 0 and is read by an asynchronous copy"):
            p.simulate(np.zeros(64, np.float32), out, arch=HOPPER)
        return
    p.simulate(np.zeros(64, np.float32), out, arch=HOPPER)
    np.testing.assert_array_equal(out, np.arange(64) + 1)
