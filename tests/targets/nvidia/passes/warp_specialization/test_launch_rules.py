"""Launches that leave threads, gemms and loads to the compiler are accepted, others refused with the reason."""

import numpy as np
import pytest
from specialized import TABLE, context, gemm_kernel, launch_of

import tilelang
import tilelang.language as T
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.launch_rules import (
    NotSpecialized,
    check_launch,
    pipelined_gemms,
)


def test_a_gemm_is_accepted_unless_it_is_switched_off():
    launch = launch_of(gemm_kernel(256, 256, 256))
    check_launch(launch, specialized=True)
    with pytest.raises(NotSpecialized, match="switched off by pass_configs"):
        check_launch(launch, specialized=False)


def test_kernels_that_name_threads_or_call_instructions_are_refused():
    @T.prim_func
    def named(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            A[T.get_thread_binding()] = 1.0

    @T.prim_func
    def calling(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            T.sync_threads()
            A[0] = 1.0

    for func, reason in ((named, "the kernel names the threads"), (calling, "the kernel calls .* itself")):
        with pytest.raises(NotSpecialized, match=reason):
            check_launch(launch_of(func), specialized=True)


def test_the_gemms_of_pipelined_loops_are_found_once():
    func = gemm_kernel(256, 256, 256)
    launch = flatten_sequences(launch_of(func))
    (gemm,) = pipelined_gemms(launch, target_capabilities(func, TABLE, context()).load_groups(launch))
    assert "C_l" == gemm.c.buffer.name


def test_a_loop_that_loads_nothing_is_refused():
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((128, 64), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.copy(A, A_s)
            T.clear(C_l)
            for _ in T.Pipelined(4, num_stages=2):
                T.gemm(A_s, A_s, C_l, transpose_B=True)
            T.copy(C_l, C)

    launch = flatten_sequences(launch_of(main))
    with pytest.raises(NotSpecialized, match="no pipelined loop loads a tile that other statements use"):
        pipelined_gemms(launch, target_capabilities(main, TABLE, context()).load_groups(launch))


def scaled(inside, m=200, n=128, k=96):
    """A product of an operand that threads scale in its tile, in front of the loop or within it."""

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((n, k), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(m, 128), threads=256) as by:
            A_s, B_s = T.alloc_shared((128, k), "float16"), T.alloc_shared((32, k), "float16")
            C_l = T.alloc_fragment((128, 32), "float32")
            if not inside:
                T.copy(A[by * 128, 0], A_s)
                for i, j in T.Parallel(128, k):
                    A_s[i, j] *= 2
            for step in T.Pipelined(T.ceildiv(n, 32), num_stages=2):
                T.copy(B[step * 32, 0], B_s)
                if inside:
                    T.copy(A[by * 128, 0], A_s)
                    for i, j in T.Parallel(128, k):
                        A_s[i, j] *= 2
                T.gemm(A_s, B_s, C_l, transpose_B=True, clear_accum=True)
                T.copy(C_l, C[by * 128, step * 32])

    return main


def test_threads_may_fill_operands_in_front_of_the_loop():
    func = scaled(inside=False)
    launch = flatten_sequences(launch_of(func))
    assert pipelined_gemms(launch, target_capabilities(func, TABLE, context()).load_groups(launch))
    kernel = tilelang.compile(func, target="sm_90a", execution_backend="simulator")
    assert "a producer of" in kernel.explain()
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (rows, 96)).astype(np.float16) for rows in (200, 128))
    c = np.full((200, 128), np.nan, np.float32)
    kernel(a, b, c)
    np.testing.assert_array_equal(c, 2 * a.astype(np.float32) @ b.T.astype(np.float32))


def test_operands_that_threads_fill_within_the_loop_are_refused():
    func = scaled(inside=True)
    launch = flatten_sequences(launch_of(func))
    with pytest.raises(NotSpecialized, match="T.copy to 'A_s': 'A_s' is written in several places"):
        pipelined_gemms(launch, target_capabilities(func, TABLE, context()).load_groups(launch))
