"""Blocks push their sums to the owners, which add them in order: simulated, in the layouts of warpgroups' products."""

import dataclasses

import numpy as np
import pytest
from answers import accepted, constraints, reason
from by_hand import ThreadProgram

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import NoLowering
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import const
from tilelang.ir.stmt import Alloc, CallStmt
from tilelang.ir.visit import walk
from tilelang.layout.constraints import FixedLayout, Reason
from tilelang.layout.solve import solve
from tilelang.layout.thread_values import digit, fragment
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import whole
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.thread import allocate_shared_memory, flatten_shared
from tilelang.passes.thread.vectorize_accesses import vectorize_accesses
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.gpu.lowerings.warp_partition import WarpPartition
from tilelang.targets.nvidia.isa.cluster import CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT
from tilelang.targets.nvidia.isa.cp_async import ASYNC_COPIES
from tilelang.targets.nvidia.isa.mbarrier import FENCE_MBARRIER_INIT, MBARRIER_INIT
from tilelang.targets.nvidia.isa.wgmma import atom_of
from tilelang.targets.nvidia.lowerings.cluster_sum import PushSums
from tilelang.targets.target import Target

TARGET = Target("cuda", "sm_90a")
PASSES = (vectorize_accesses(ASYNC_COPIES), allocate_shared_memory.PASS, flatten_shared.PASS)


def held(rows, columns, warpgroups, dtype="float32", *, across=1):
    """How warpgroups hold the sums of their product."""
    width = columns // across
    atom = atom_of(*map(as_dtype, ("float16", "float16", dtype)), width)
    share = WarpPartition(warpgroups // across, across, 1, rows * across // (64 * warpgroups), 1)
    return share.accumulator(atom, rows, columns)


def tile(name, shape, dtype, scope):
    return Buffer(name, tuple(const(extent, INT32) for extent in shape), as_dtype(dtype), scope)


def site_of(op, layout, threads, thread=None):
    """The context of a sum, with the layout that follows for what blocks own."""
    lowering = PushSums()
    context = LoweringContext(TARGET, CompileOptions(), threads, thread)
    solution = solve([FixedLayout(op.sums.buffer, layout, Reason("a product")), *constraints(lowering, op, context)])
    buffers = (op.sums.buffer, op.own.buffer)
    registers = {b: tile(b.name, (solution.layouts[b].values,), b.dtype, Scope.LOCAL) for b in buffers}
    return dataclasses.replace(context, fragments=solution.layouts, registers=registers)


def program(layout, blocks, owners, dtype="float32"):
    """Blocks whose sums are `A[block]`, and which store what they own to `B`."""
    p = ThreadProgram()
    rows, columns = layout.shape
    a, b = p.tensor("A", (blocks, rows, columns), dtype), p.tensor("B", (rows, columns), dtype)
    with p.kernel(blocks, threads=layout.threads, cluster=(blocks, 1, 1)) as (rank,):
        sums = tile("sums", layout.shape, dtype, Scope.FRAGMENT)
        own = sums if owners == 1 else tile("own", (rows, columns // owners), dtype, Scope.FRAGMENT)
        parts = p.shared("parts", (rows * columns // owners * (blocks - 1),), dtype)
        sent = p.alloc("sent", (1,), "uint64", Scope.BARRIER)
        barrier = Region(sent, (const(0, INT32),), (const(1, INT32),))
        op = ClusterSum(whole(sums), whole(own), whole(parts), barrier, rank, blocks)
        context = site_of(op, layout, layout.threads, p.thread)
        with p.branch(p.thread == 0):
            p.call(MBARRIER_INIT, barrier, 1)
            p.call(FENCE_MBARRIER_INIT)
        p.call(CLUSTER_ARRIVE_RELAXED)
        p.call(CLUSTER_WAIT)
        mine, kept = (context.registers[region.buffer] for region in (op.sums, op.own))
        for buffer in dict.fromkeys((mine, kept)):
            p.emit(Alloc(buffer))
        for value in range(layout.values):
            p.store(mine, (value,), p.load(a, rank, *layout.coordinates(p.thread, value)))
        PushSums().lower(op, accepted(PushSums(), op, context), context, p.builder)
        with p.branch(rank < owners):
            of_own = context.fragments[op.own.buffer]
            for value in range(of_own.values):
                row, column = of_own.coordinates(p.thread, value)
                p.store(b, (row, column + rank * (columns // owners)), p.load(kept, value))
    return run_passes(p.finish(), PASSES, PassContext(CompileOptions(), TARGET))


def result(func, parts, *, lazy=True, seed=0, report=None):
    out = np.full(parts.shape[1:], np.nan, parts.dtype)
    simulate(func, [parts, out], target=TARGET, lazy=lazy, seed=seed, report=report)
    return out


@pytest.mark.slow(every=16)
@pytest.mark.parametrize(
    ("layout", "blocks", "owners"),
    [
        (held(64, 64, 1), 2, 2),
        (held(64, 64, 1), 2, 1),
        (held(64, 64, 1), 4, 4),
        (held(64, 32, 1), 4, 2),
        (held(64, 48, 1), 3, 3),
        (held(128, 32, 1), 2, 2),
        (held(128, 32, 2), 2, 2),
    ],
)
def test_owners_have_their_columns_of_the_sum(layout, blocks, owners):
    parts = np.random.default_rng(0).integers(-99, 99, (blocks, *layout.shape)).astype(np.float32)
    func = program(layout, blocks, owners)
    for lazy, seed in ((True, 0), (False, 1)):
        np.testing.assert_array_equal(parts.sum(axis=0), result(func, parts, lazy=lazy, seed=seed))


def test_parts_are_added_in_the_order_of_ranks():
    parts = np.random.default_rng(0).standard_normal((3, 64, 48)).astype(np.float32)
    want = parts[0] + parts[1] + parts[2]
    np.testing.assert_array_equal(want, result(program(held(64, 48, 1), 3, 3), parts))


def test_sums_in_half_precision_travel_in_sixteen_bytes_as_well():
    parts = np.random.default_rng(0).integers(-9, 9, (2, 64, 64)).astype(np.float16)
    func = program(held(64, 64, 1, "float16"), 2, 2, "float16")
    np.testing.assert_array_equal(parts.sum(axis=0), result(func, parts))
    sent = {s.routine.name for s in walk(func.body) if isinstance(s, CallStmt) and "async" in s.routine.name}
    assert {"cluster_store_async_float16x8"} == sent


def test_neither_stores_nor_loads_meet_in_a_bank():
    counters, parts = Counters(), np.zeros((2, 64, 64), np.float32)
    result(program(held(64, 64, 1), 2, 2), parts, report=counters)
    assert 0 == counters.bank_conflicts


def test_targets_without_clusters_are_refused():
    assert "sm_80 has no clusters" == reason(PushSums(), None, LoweringContext(Target("cuda", "sm_80"), CompileOptions(), 128))
    assert "" == reason(PushSums(), None, LoweringContext(TARGET, CompileOptions(), 128))


def test_warpgroups_that_share_columns_hold_other_parts_in_other_blocks():
    with pytest.raises(NoLowering, match="threads do not hold the same parts of 'sums' in all blocks"):
        program(held(64, 128, 2, across=2), 2, 2)


def test_elements_that_several_threads_hold_are_refused():
    copies = fragment((64, 64), [digit(64, 1, 0), digit(2, 0, 0)], [digit(64, 0, 1)])
    with pytest.raises(NoLowering, match="do not hold the same parts"):
        program(copies, 2, 2)
