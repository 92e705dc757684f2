"""Loops of gemms in which two groups of waves ping-pong: which do, and that their accesses stay ordered."""

import dataclasses

import numpy as np
import pytest
from amd_final_code import check_limits, check_waits
from gpu import assert_simulates, lower_func, simulate_func
from hip_kernels import needs_clang
from hip_text import printed

import tilelang
import tilelang.language as T
from tilelang.errors import DataRace
from tilelang.ir.stmt import CallStmt, For, Launch
from tilelang.ir.visit import walk, without
from tilelang.schedule.ping_pong import BARRIER_CYCLES
from tilelang.targets.amd.isa.ping_pong import begin_ping_pong, end_phase, end_ping_pong
from tilelang.targets.amd.isa.wait_counters import Counters

GFX9 = Counters.LOADS_AND_STORES
END_PHASE, BEGIN, END = end_phase(GFX9), begin_ping_pong(GFX9), end_ping_pong(GFX9)


def gemm(k, *, block=128, depth=32, threads=512, stages=2, through_shared=False, publishes=False, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((block, k), dtype), B: T.Tensor((k, block), dtype), C: T.Tensor((block, block), "float32")):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared((block, depth), dtype), T.alloc_shared((depth, block), dtype)
            c = T.alloc_fragment((block, block), "float32")
            if publishes:
                T.atomic_add(C[0, 0], 0)
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[0, i * depth], a)
                T.copy(B[i * depth, 0], b)
                T.gemm(a, b, c)
            if through_shared:
                whole = T.alloc_shared((block, block), "float16")
                T.copy(c, whole)
                for i, j in T.Parallel(block, block):
                    C[i, j] = whole[block - 1 - i, block - 1 - j]
            else:
                T.copy(c, C)

    return main


def arguments(func):
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, p.buffer.static_shape).astype(p.buffer.dtype.numpy) for p in func.params]


def routines(func, arch="gfx942"):
    """The routines of the calls of a program, in order."""
    return [s.routine for s in walk(lower_func(func, arch).body) if isinstance(s, CallStmt)]


def phases_of(func, arch="gfx942"):
    """The phases of an iteration, 0 without ping-pong."""
    loops = [s for s in walk(lower_func(func, arch).body) if isinstance(s, For) and s.var.name == "i"]
    return sum(isinstance(s, CallStmt) and s.routine is END_PHASE for loop in loops for s in walk(loop.body))


@pytest.mark.parametrize(("depth", "phases"), [(32, 4), (64, 8)])
def test_an_iteration_alternates_as_often_as_operands_are_loaded(depth, phases):
    func = gemm(256, block=256, depth=depth)
    assert phases == phases_of(func)
    found = routines(func)
    assert (1, 1) == (found.count(BEGIN), found.count(END))


def test_the_estimate_is_noted():
    launch = next(s for s in walk(lower_func(gemm(256), "gfx942").body) if isinstance(s, Launch))
    # A product occupies the matrix units for 128 cycles, the loads of its operands LDS for 96, the stores for 64. In
    # ping-pong a phase of both loads and its neighbors take 192 each, two others 128; else 96 and 64 are not hidden.
    cycles, without_ping_pong = 2 * 192 + 2 * 128 + 4 * BARRIER_CYCLES, 2 * (96 + 2 * 128 + 64)
    text = f"{cycles} cycles an iteration by estimate, {without_ping_pong} without ping-pong"
    assert f"T.Pipelined: two groups of 4 waves ping-pong in 4 phases: {text}" in [n.text for n in launch.plan.notes]


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("trips", [2, 3, 4])
@pytest.mark.parametrize("stages", [2, 3])
def test_products_are_right(trips, stages):
    func = gemm(32 * trips, stages=stages)
    assert phases_of(func)
    assert_simulates(func, *arguments(func), arch="gfx942", seeds=(0, 1))


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_waves_of_sums_that_go_through_shared_memory_ping_pong_too(arch):
    func = gemm(64, through_shared=True)
    assert phases_of(func, arch)
    assert_simulates(func, *arguments(func), arch=arch, seeds=(0, 1))


def test_ragged_tiles_ping_pong():
    func = gemm(72)
    assert phases_of(func)
    assert_simulates(func, *arguments(func), arch="gfx942", seeds=(0,))


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_other_dtypes(dtype):
    func = gemm(64, dtype=dtype)
    assert phases_of(func)
    assert_simulates(func, *arguments(func), arch="gfx942", seeds=(0,))


@pytest.mark.parametrize(
    ("options", "arch"),
    [
        ({"threads": 256}, "gfx942"),  # one wave for each SIMD unit
        ({"block": 64}, "gfx942"),  # products too short for a barrier after each
        ({"stages": 1}, "gfx942"),  # a tile is loaded where it is read
        ({"publishes": True}, "gfx942"),  # barriers might have to order global memory
        ({}, "gfx950"),  # its direct loads are waited for at the head of an iteration
        ({}, "gfx1100"),  # whose matrix instructions have no number of cycles
    ],
)  # fmt: skip
def test_loops_without_ping_pong(options, arch):
    func = gemm(256, **options)
    assert 0 == phases_of(func, arch)
    assert BEGIN not in routines(func, arch)


@pytest.mark.parametrize("kept", range(2))
def test_half_of_the_barriers_would_not_order_the_groups(kept):
    func = gemm(96)
    program = lower_func(func, "gfx942")
    found = [s for s in walk(program.body) if isinstance(s, CallStmt) and s.routine is END_PHASE]
    fewer = dataclasses.replace(program, body=without(program.body, set(found[1 - kept :: 2])))
    with pytest.raises(DataRace):
        for seed in range(3):
            simulate_func(fewer, arguments(func), "gfx942", seed=seed)


@needs_clang
@pytest.mark.slow(every=8)
@pytest.mark.parametrize("stages", [2, 3])
def test_the_machine_code_is_right(stages):
    from amd_execution import execute

    func = gemm(128, stages=stages)
    code = tilelang.compile(func, target={"kind": "hip", "arch": "gfx942"})._runner.code
    (launch,) = code.source.launches
    check_limits(code, launch.name, 512)
    check_waits(code, launch.name, 512, "QQQ", [1 << 40, 2 << 40, 3 << 40])
    a, b, c = arguments(func)
    execute(code, [a, b, c])
    np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32), c)


def test_steps_of_different_phases_take_offsets_from_one():
    """Which the compiler may keep, or compute by an XOR in each phase."""
    text = printed(gemm(256, block=256, depth=64), "gfx942").text
    assert 1 == text.count("int a_at = ")
    assert all(f"tl_at(a, {place} + v * 4096)" in text for place in ("a_at", "(a_at ^ 32)", "(a_at ^ 64)", "(a_at ^ 96)"))
