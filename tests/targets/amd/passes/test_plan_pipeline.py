"""Pipelined loops on AMD's GPUs: what runs ahead, and what stays serial and why."""

import numpy as np
import pytest
from gpu import assert_simulates, lower_func

import tilelang.language as T
from tilelang.ir.stmt import Alloc, CallStmt, Launch
from tilelang.ir.visit import walk
from tilelang.targets.amd.isa.barriers import lds_barrier
from tilelang.targets.amd.isa.direct_to_lds import DIRECT_LOADS
from tilelang.targets.amd.isa.wait_counters import Counters

ARCHS = ["gfx942", "gfx1100"]


def gemm(m, n, k, tile=(32, 32, 16), stages=2, threads=128, case="", dtype="float16"):
    rows, columns, depth = tile

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth), "float16")
            b = T.alloc_shared((depth, columns), "float16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * rows, i * depth], a)
                T.copy(B[i * depth, bx * columns], b)
                T.gemm(a, b, c)
                if case == "changed":
                    T.clear(a)
            T.copy(c, C[by * rows, bx * columns])

    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n))]
    return main, [*arrays, np.zeros((m, n), np.float32)]


def launch_of(func, arch):
    return next(s for s in walk(lower_func(func, arch).body) if isinstance(s, Launch))


def notes(func, arch="gfx942"):
    return [note.text for note in launch_of(func, arch).plan.notes]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
def test_any_number_of_stages_gives_the_same_product(arch, stages):
    main, arguments = gemm(32, 40, 40, stages=stages)
    assert_simulates(main, *arguments, arch=arch, seeds=(0,))


@pytest.mark.parametrize("trips", [1, 2, 3])
@pytest.mark.parametrize("stages", [2, 3])
def test_loops_shorter_than_their_pipeline_are_right(trips, stages):
    main, arguments = gemm(32, 32, 16 * trips, stages=stages)
    assert_simulates(main, *arguments, arch="gfx942", seeds=(0,))


def test_tiles_that_are_converted_are_loaded_as_they_are():
    main, arguments = gemm(32, 32, 48, dtype="float32")
    assert_simulates(main, *arguments, arch="gfx942", seeds=(0,))
    registers = {s.buffer.name: s.buffer.dtype for s in walk(lower_func(main, "gfx942").body) if isinstance(s, Alloc)}
    assert "float32" == str(registers["a_next"])


@pytest.mark.parametrize(("stages", "versions"), [(1, {}), (2, {}), (3, {"a": 2, "b": 2}), (5, {"a": 2, "b": 2})])
def test_shared_tiles_have_one_version_or_two(stages, versions):
    launch = launch_of(gemm(64, 64, 64, stages=stages)[0], "gfx942")
    assert versions == {buffer.name: count for buffer, count in launch.plan.versions}
    assert (stages > 1) == any(isinstance(s, Alloc) and s.buffer.name == "a_next" for s in walk(launch.body))


def test_a_second_version_saves_a_barrier_in_each_iteration():
    def barriers(stages):
        loops = [s for s in walk(launch_of(gemm(64, 64, 64, stages=stages)[0], "gfx942").body) if type(s).__name__ == "For" and s.var.name == "i"]
        return sum(isinstance(s, CallStmt) and s.routine is lds_barrier(Counters.LOADS_AND_STORES) for s in walk(loops[0].body))

    assert (2, 1) == (barriers(2), barriers(3))


def test_a_second_version_that_does_not_fit_is_left_out():
    main, _ = gemm(128, 128, 256, (128, 128, 96), stages=3, threads=256)
    assert () == launch_of(main, "gfx942").plan.versions
    assert launch_of(main, "gfx950").plan.versions


@pytest.mark.slow(every=2)
@pytest.mark.parametrize(("stages", "count"), [(2, 2), (3, 3), (5, 5)])
def test_direct_loads_run_ahead_in_as_many_versions_as_there_are_stages(stages, count):
    main, arguments = gemm(64, 64, 96, (64, 64, 16), stages=stages)
    launch = launch_of(main, "gfx950")
    assert {"a": count, "b": count} == {buffer.name: versions for buffer, versions in launch.plan.versions}
    assert any(isinstance(s, CallStmt) and s.routine is DIRECT_LOADS[16] for s in walk(launch.body))
    assert_simulates(main, *arguments, arch="gfx950", seeds=(0, 1))


def test_stages_that_do_not_fit_are_left_out():
    main, _ = gemm(256, 256, 256, (256, 256, 64), stages=4, threads=256)
    assert {2} == {versions for _, versions in launch_of(main, "gfx950").plan.versions}


def test_one_copy_that_cannot_be_direct_sends_all_through_registers():
    main, arguments = gemm(64, 64, 48, (64, 64, 16), dtype="float32")
    assert "a_next" in {s.buffer.name for s in walk(launch_of(main, "gfx950").body) if isinstance(s, Alloc)}
    assert_simulates(main, *arguments, arch="gfx950", seeds=(0,))


def test_tiles_too_large_for_registers_stay_in_place_and_that_is_said():
    main, _ = gemm(128, 128, 128, (128, 128, 64), threads=64)
    assert any("the loop stays serial: its tiles would take 32768 bytes of registers" in note for note in notes(main))


def test_a_tile_that_is_changed_stays_in_place():
    main, arguments = gemm(32, 32, 48, case="changed", stages=3)
    assert_simulates(main, *arguments, arch="gfx942", seeds=(0,))


@pytest.mark.parametrize(
    ("order", "stage"), [([0, 1, 2], [0, 0, 1]), ([1, 0, 2], [0, 0, 0]), ([0, 1, 2], [0, 0, 2])]
)
def test_statements_placed_by_hand_run_in_their_stages(order, stage):
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for i in T.Pipelined(4, num_stages=2, order=order, stage=stage):
                T.copy(A[0, i * 16], a)
                T.copy(B[i * 16, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(np.float16) for shape in ((32, 64), (64, 32))]
    assert_simulates(main, *arrays, np.zeros((32, 32), np.float32), arch="gfx942")
