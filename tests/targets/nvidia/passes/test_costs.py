"""The cost model of the statements of a loop."""

import dataclasses
import math

import pytest

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc, For, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.schedule.loop_graph import Work
from tilelang.targets.nvidia.machines import MACHINES
from tilelang.targets.nvidia.passes.costs import (
    copy_work,
    gemm_work,
    group_work,
    iteration_cycles,
    load_cycles,
    prefetch_costs,
    rates_of,
    stages_that_hide_loads,
    streaming_cycles,
    thread_work,
    with_exchange,
)

RATES = rates_of(MACHINES["sm_90a"])


@T.prim_func
def main(A: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128):
        A_s = T.alloc_shared((128, 64), "float16")
        S = T.alloc_fragment((128, 128), "float32")
        T.copy(A, A_s)
        T.gemm(A_s, A_s, S, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(128, 128):
            S[i, j] = T.exp2(S[i, j])
        for i, j in T.Parallel(128, 128):
            S[i, j] = S[i, j] + 1.0
        factor = T.alloc_fragment((128,), "float32")
        T.clear(factor)
        for i, j in T.Parallel(128, 128):
            if factor[i] != 1.0:
                S[i, j] *= factor[i]
        T.copy(S, C)


def only(kind):
    return [s for s in walk(main.body) if isinstance(s, kind)]


def test_a_gemm_takes_the_cycles_of_the_tensor_cores():
    work = gemm_work(only(Gemm)[0], RATES)
    assert (True, 2 * 128 * 128 * 64 // 4096) == (work.asynchronous, work.cycles)
    assert work.cycles == work.unit_cycles > work.warp_cycles


def test_gemms_of_operands_in_registers_hinder_threads():
    (gemm,) = only(Gemm)
    held = dataclasses.replace(gemm.a.buffer, scope=Scope.FRAGMENT)
    in_registers = dataclasses.replace(gemm, a=dataclasses.replace(gemm.a, buffer=held))
    assert (False, True) == (gemm_work(gemm, RATES).hinders, gemm_work(in_registers, RATES).hinders)


def test_threads_that_wait_for_a_gemm_are_busy_for_as_long():
    (gemm,) = only(Gemm)
    assert Work(gemm_work(gemm, RATES).cycles) == thread_work(gemm, RATES)


def test_special_functions_take_eight_times_as_long_as_an_addition():
    exp, add, _ = (thread_work(loop, RATES) for loop in only(ParallelLoop))
    elements = 128 * 128 // 128  # per lane
    assert Work(2 * elements) == add  # the addition and the store
    assert Work(9 * elements) == exp


def test_of_what_warps_may_skip_only_the_test_counts():
    *_, skipped = (thread_work(loop, RATES) for loop in only(ParallelLoop))
    assert Work(1) == skipped


def test_one_warpgroup_has_a_third_of_the_lanes_and_three_have_all():
    _, add, _ = only(ParallelLoop)
    assert [768, 384, 256, 256] == [group_work(add, RATES, groups).cycles for groups in (1, 2, 3, 4)]


def test_a_load_takes_the_part_of_the_latency_that_stages_have_to_hide():
    assert math.ceil(0.45 * 950 + 4096 / 90) == load_cycles(4096, RATES)
    assert math.ceil(rates_of(MACHINES["sm_80"]).memory_latency + 4096 / 64) == load_cycles(4096, rates_of(MACHINES["sm_80"]))


def test_an_exchange_among_warpgroups_occupies_the_warps():
    assert Work(140) == with_exchange(Work(40))
    assert Work(140, prefetched=True) == with_exchange(Work(40, prefetched=True))


def test_an_iteration_takes_the_cycles_of_its_gemms_and_of_the_threads_between_them():
    @T.prim_func
    def two(A: T.Tensor((512, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((128, 64), "float16")
            S, C_f = T.alloc_fragment((128, 128), "float32"), T.alloc_fragment((128, 64), "float32")
            P = T.alloc_fragment((128, 128), "float16")
            T.clear(C_f)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 128, 0], A_s)
                T.gemm(A_s, A_s, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(128, 128):
                    S[i, j] = S[i, j] + 1.0
                T.copy(S, P)
                T.gemm(P, A_s, C_f)
            T.copy(C_f, C)

    (loop,) = (s for s in walk(two.body) if isinstance(s, For))
    (between,) = (s for s in walk(loop) if isinstance(s, ParallelLoop))
    assert 2 * 128 * 128 * 64 // 4096 * 2 + thread_work(between, RATES).cycles == iteration_cycles(loop, RATES)


@pytest.mark.parametrize(
    ("stage_bytes", "cycles", "stages"),
    [
        (128 * 64 * 2 + 64 * 256 * 2, 128 * 256 * 64 * 2 // 4096, 4),  # a plain gemm
        (2 * 64 * 128 * 2, 5 * 64 * 128 * 128 * 2 // 4096, 2),  # attention, backward
        (32 << 10, 1 << 20, 2),  # the next tile is loaded while one is used
        (32 << 10, 0, 2171),
    ],
)
def test_longer_iterations_need_fewer_stages_to_hide_loads(stage_bytes, cycles, stages):
    assert stages == stages_that_hide_loads(stage_bytes, cycles, RATES)


def test_a_copy_takes_shared_memory_as_long_as_it_takes_in_the_tile():
    tile = next(s.buffer for s in walk(main.body) if isinstance(s, Alloc) and s.buffer.name == "A_s")
    ampere, turing = (rates_of(MACHINES[name]) for name in ("sm_80", "sm_75"))
    assert Work(0, issue=128 * 64 * 2 // 128, prefetched=True) == copy_work(tile, ampere)
    assert 2 * copy_work(tile, ampere).issue == copy_work(tile, turing).issue


def test_latencies_come_from_the_data_sheet_where_none_are_measured():
    measured, sheet = (prefetch_costs(rates_of(MACHINES[name])) for name in ("sm_90", "sm_80"))
    assert measured.latency == MACHINES["sm_90"].rates.memory_latency
    assert sheet.latency == MACHINES["sm_80"].data_sheet.rates.memory_latency


def test_all_multiprocessors_share_the_bandwidth_of_memory():
    h200 = MACHINES["sm_90a"]
    seconds = streaming_cycles(1 << 20, h200) / h200.rates.clock
    assert seconds == pytest.approx(132 * 2**20 / (4800e9 * 0.915))
    assert 0 == streaming_cycles(1 << 20, dataclasses.replace(h200, memory_bandwidth=0))
