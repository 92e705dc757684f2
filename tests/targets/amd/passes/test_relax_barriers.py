"""Barriers that order LDS only, and those that must order global memory as well."""

import pytest
from by_hand import ThreadProgram

from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.targets.amd.isa.barriers import lds_barrier
from tilelang.targets.amd.isa.wait_counters import Counters
from tilelang.targets.amd.passes import relax_barriers
from tilelang.targets.gpu.isa.fence import FENCE_DEVICE
from tilelang.targets.gpu.isa.sync import SYNC_GRID, SYNC_THREADS
from tilelang.targets.target import Target

GENERATIONS = [
    ("gfx942", Counters.LOADS_AND_STORES), ("gfx1100", Counters.SEPARATE_STORES), ("gfx1200", Counters.ALL_SEPARATE)
]  # fmt: skip


def barriers(arch, *, between=None, reads="A"):
    """The routines of the barriers of a program that writes B, after the pass."""
    p = ThreadProgram()
    a, b, t = p.tensor("A", (64,)), p.tensor("B", (64,)), p.thread
    with p.kernel(1, threads=64):
        tile = p.shared("tile", (64,))
        p.store(tile, (t,), p.load(a if reads == "A" else b, t) + 0)
        p.sync()
        if between is not None:
            p.call(between)
        p.store(b, (t,), p.load(tile, (t + 1) % 64) + 0)
    made = relax_barriers.PASS.run(p.finish(), PassContext(target=Target("hip", arch)))
    return [s.routine for s in walk(made.body) if isinstance(s, CallStmt) and s.routine is not between]


@pytest.mark.parametrize(("arch", "counters"), GENERATIONS)
def test_barriers_for_shared_memory_leave_accesses_to_global_memory_in_flight(arch, counters):
    assert [lds_barrier(counters)] == barriers(arch)


@pytest.mark.parametrize("options", [{"reads": "B"}, {"between": FENCE_DEVICE}, {"between": SYNC_GRID}])
def test_barriers_that_may_order_global_memory_stay(options):
    assert [SYNC_THREADS] == barriers("gfx942", **options)
