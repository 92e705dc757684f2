"""Launches begin before those in front of them have ended, and wait before they touch memory."""

import numpy as np
import pytest
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
LATE = CompileOptions.from_user({"tl.overlap_launches": False})


def calls(func, arch="sm_90a", options=CompileOptions()):
    """The names of the instructions of dependent launch with which each launch begins; it has no others."""
    found = []
    for launch in (stmt for stmt in walk(lower_func(func, arch, options).body) if isinstance(stmt, Launch)):
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


def test_all_launches_wait():
    assert [[WAIT], [WAIT], [WAIT]] == calls(steps)


def test_launches_that_wait_are_launched_early():
    source = generate_source(steps, Target("cuda", "sm_90a"), CompileOptions())
    bodies = source.text.split('extern "C" __global__')[1:]
    assert [1, 1, 1] == [body.count("tl_grid_dependency_wait();") for body in bodies]
    assert [True, True, True] == [launch.early for launch in source.launches]
    assert "__restrict__" not in source.text


def test_the_results_are_those_of_launches_one_after_the_other():
    a = np.arange(N, dtype=np.float32)
    b = np.zeros_like(a)
    tilelang.compile(steps, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")(a, b)
    np.testing.assert_array_equal((a + 1) * 2 - a, b)


@pytest.mark.parametrize(("arch", "options"), [("sm_80", CompileOptions()), ("sm_90a", LATE)])
def test_launches_begin_behind_all_others_on_other_gpus_and_where_the_user_wants_that(arch, options):
    assert [[], [], []] == calls(steps, arch, options)
    source = generate_source(steps, Target("cuda", arch), options)
    assert not any(launch.early for launch in source.launches)
    assert "__restrict__" in source.text


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


def test_loops_load_before_they_store():
    size = 8 * THREADS

    @T.prim_func
    def copies(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1, threads=THREADS):
            T.copy(A, B)

    assert [[WAIT]] == calls(copies)
    text = generate_source(copies, Target("cuda", "sm_90a"), CompileOptions()).text
    assert text.index("A_ahead[v * 4] = ") < text.index("&B[")


def test_a_launch_whose_threads_load_after_they_have_stored_begins_behind_all_others():
    @T.prim_func
    def in_turn(A: T.Tensor((THREADS,), "float32"), B: T.Tensor((THREADS,), "float32")):
        with T.Kernel(1, threads=THREADS):
            for k in T.serial(3):  # what is stored is loaded again
                for i in T.Parallel(THREADS):
                    B[i] = A[i] + k
        with T.Kernel(1, threads=THREADS):
            T.copy(A, B)
            T.copy(B, A)

    assert [[], []] == calls(in_turn)
    source = generate_source(in_turn, Target("cuda", "sm_90a"), CompileOptions())
    assert [False, False] == [launch.early for launch in source.launches]


def test_blocks_that_wait_for_each_other_are_launched_after_all_others():
    @T.prim_func
    def grid_barrier(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        half = T.alloc_global((N,), "float32")
        with T.Kernel(1, threads=THREADS):
            T.copy(A, half)
        with T.Kernel(2, threads=THREADS) as bx:
            T.sync_grid()
            T.copy(half[bx * THREADS : (bx + 1) * THREADS], B[bx * THREADS : (bx + 1) * THREADS])

    assert [[WAIT], []] == calls(grid_barrier)
