"""Launches of one program begin while those before them still run, and wait before they touch memory."""

import numpy as np
from gpu import lower_func

import tilelang
import tilelang.language as T
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.visit import walk
from tilelang.jit.program import generate_source
from tilelang.options import CompileOptions
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_LAUNCH, GRID_DEPENDENCY_WAIT
from tilelang.targets.target import Target

N, THREADS = 256, 128
OVERLAP = (GRID_DEPENDENCY_WAIT, GRID_DEPENDENCY_LAUNCH)
WAIT = GRID_DEPENDENCY_WAIT.name


def calls(func, arch="sm_90a"):
    """The names of the instructions of dependent launch with which each launch begins; it has no others."""
    found = []
    for launch in (stmt for stmt in walk(lower_func(func, arch).body) if isinstance(stmt, Launch)):
        names = [s.routine.name for s in walk(launch.body) if isinstance(s, CallStmt) and s.routine in OVERLAP]
        first = statements_of(launch.body)[: len(names)]
        assert names == [s.routine.name for s in first]
        found.append(names)
    return found


@T.prim_func
def steps(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
    once = T.alloc_global((N,), "float32")
    twice = T.alloc_global((N,), "float32")
    with T.Kernel(N // THREADS, threads=THREADS) as bx:
        for i in T.Parallel(THREADS):
            once[bx * THREADS + i] = A[bx * THREADS + i] + 1
    with T.Kernel(N // THREADS, threads=THREADS) as bx:
        for i in T.Parallel(THREADS):
            twice[bx * THREADS + i] = once[N - 1 - bx * THREADS - i] * 2
    with T.Kernel(N // THREADS, threads=THREADS) as bx:
        for i in T.Parallel(THREADS):
            B[bx * THREADS + i] = twice[N - 1 - bx * THREADS - i] - A[bx * THREADS + i]


def test_all_launches_but_the_first_wait():
    assert [[], [WAIT], [WAIT]] == calls(steps)


def test_launches_that_wait_are_launched_early():
    source = generate_source(steps, Target("cuda", "sm_90a"), CompileOptions())
    bodies = source.text.split('extern "C" __global__')[1:]
    assert [0, 1, 1] == [body.count("tl_grid_dependency_wait();") for body in bodies]
    assert [False, True, True] == [launch.early for launch in source.launches]


def test_the_results_are_those_of_launches_one_after_the_other():
    a = np.arange(N, dtype=np.float32)
    b = np.zeros_like(a)
    tilelang.compile(steps, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")(a, b)
    np.testing.assert_array_equal((a + 1) * 2 - a, b)


def test_gpus_without_dependent_launches_and_single_launches_have_none():
    @T.prim_func
    def one(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=THREADS):
            T.copy(A, B)

    assert [[]] == calls(one)
    assert [[], [], []] == calls(steps, "sm_80")


def test_a_launch_that_calls_them_itself_stays_as_it_is():
    @T.prim_func
    def by_hand(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        half = T.alloc_global((N,), "float32")
        with T.Kernel(1, threads=THREADS):
            T.pdl_trigger()
            T.copy(A, half)
        with T.Kernel(1, threads=THREADS):
            T.pdl_sync()
            T.copy(half, B)
        with T.Kernel(1, threads=THREADS):
            T.copy(half, B)

    assert [[GRID_DEPENDENCY_LAUNCH.name], [WAIT], [WAIT]] == calls(by_hand)


def test_a_launch_whose_threads_load_after_they_have_stored_begins_as_before():
    size = 8 * THREADS

    @T.prim_func
    def in_turn(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        half = T.alloc_global((size,), "float32")
        with T.Kernel(1, threads=THREADS):
            T.copy(A, half)
        with T.Kernel(1, threads=THREADS):  # four elements at once, and then four more
            T.copy(half, B)
        with T.Kernel(1, threads=THREADS):  # all elements are loaded before the first is stored
            held = T.alloc_fragment((size,), "float32")
            T.copy(half, held)
            T.copy(held, B)

    assert [[], [], [WAIT]] == calls(in_turn)


def test_blocks_that_wait_for_each_other_are_launched_after_all_others():
    @T.prim_func
    def grid_barrier(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        half = T.alloc_global((N,), "float32")
        with T.Kernel(1, threads=THREADS):
            T.copy(A, half)
        with T.Kernel(2, threads=THREADS) as bx:
            T.sync_grid()
            T.copy(half[bx * THREADS : (bx + 1) * THREADS], B[bx * THREADS : (bx + 1) * THREADS])

    assert [[], []] == calls(grid_barrier)
