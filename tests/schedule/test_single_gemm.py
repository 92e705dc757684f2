"""Loops that are one gemm: it may stay in flight, and its stage is then released one iteration later."""

import pytest
from specialized import TABLE, context, gemm_kernel, launch_of, warp_specialize

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import For
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.schedule.single_gemm import has_tile_work, only_gemm
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities


def lines(func, **pass_configs):
    made = warp_specialize(func, in_flight=1, **pass_configs)
    verify(made)
    return [line.strip() for line in to_text(made).splitlines()]


def waits(func, **pass_configs):
    with pytest.raises(ProgramError, match="'tl.in_flight' cannot be 1: no loop of at least two stages is one gemm"):
        warp_specialize(func, in_flight=1, **pass_configs)
    made = warp_specialize(func, **pass_configs)
    return [s.wait for s in walk(launch_of(made).body) if isinstance(s, Gemm)]


def test_a_stage_is_released_behind_the_next_gemm_and_the_last_one_behind_the_loop():
    shown = lines(gemm_kernel(128, 128, 512), stages=3)
    begin = next(n for n, line in enumerate(shown) if line.startswith("T.gemm("))
    assert "wait=-1" in shown[begin]
    assert shown[begin + 1 : begin + 7] == [
        "wait for gemms(pending=1, results=())",
        "version_1 = (k + 2) % 3",
        "if k != 0:",
        "pipeline A_s: release(version_1)",
        "wait for gemms(pending=0, results=(C_l,))",
        "pipeline A_s: release(1)",
    ]


def test_one_version_cannot_be_read_and_filled():
    assert [0] == waits(gemm_kernel(128, 128, 512), stages=1)


def test_loops_that_may_have_no_iteration_wait_for_each_gemm():
    assert [0] == waits(gemm_kernel(128, 128, T.dynamic("n") * 64), stages=3)


@pytest.mark.parametrize("what", ["other work", "a fragment"])
def test_gemms_beside_other_work_or_of_fragments_complete_at_once(what):
    @T.prim_func
    def main(A: T.Tensor((128, 512), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((128, 64), "float16")
            A_l = T.alloc_fragment((128, 64), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[0, k * 64], A_s)
                if what == "a fragment":
                    T.copy(A_s, A_l)
                    T.gemm(A_l, A_s, C_l, transpose_B=True)
                else:
                    T.gemm(A_s, A_s, C_l, transpose_B=True)
                    for i, j in T.Parallel(128, 128):
                        C_l[i, j] *= 2.0
            T.copy(C_l, C)

    assert [0] == waits(main, stages=3)
    assert any(isinstance(s, For) for s in walk(launch_of(warp_specialize(main, stages=3)).body))


def test_a_single_gemm_completes_before_the_order_barrier_is_arrived_at():
    # warps that wait for a turn could otherwise still do so when the other one has ended the next
    shown = lines(gemm_kernel(512, 512, 64), stages=3, ping_pong=True, persistent=True)
    assert "wait for gemms(pending=0, results=(C_l,))" in shown[: shown.index("order tiles: arrive(0)")]


def test_a_loop_without_tiles_is_no_loop_of_a_gemm():
    @T.prim_func
    def main(A: T.Tensor((4, 128, 64), "float16"), n: T.Tensor((4,), "int32"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((128, 64), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            page = T.alloc_var("int32", init=0)
            T.clear(C_l)
            for k in T.serial(3):
                page = n[page]
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k, 0, 0], A_s)
                T.gemm(A_s, A_s, C_l, transpose_B=True)
            T.copy(C_l, C)

    scalar, tiled = (s for s in walk(launch_of(main).body) if isinstance(s, For))
    assert [False, True] == [has_tile_work(scalar), has_tile_work(tiled)]
    groups = target_capabilities(main, TABLE, context()).load_groups(flatten_sequences(launch_of(main))).found
    loops = [s for s in walk(flatten_sequences(launch_of(main)).body) if isinstance(s, For)]
    assert only_gemm(loops[0], groups) is None
