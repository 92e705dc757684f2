"""The work of statements by the rates of a machine."""

import dataclasses

import tilelang.language as T
from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.stmt import For, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.ops.gemm import Gemm
from tilelang.schedule.loop_graph import Work
from tilelang.schedule.statement_work import instructions, products, statement_work, work_of_threads
from tilelang.targets.target import Target

RATES = dataclasses.replace(Target("cuda", "sm_90a").machine.rates, lanes=64, special=8, matrix=1024, matrix_by_warp=0.5)


@T.prim_func
def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        A_s = T.alloc_shared((64, 64), "float16")
        S = T.alloc_fragment((64, 64), "float32")
        T.copy(A, A_s)
        T.gemm(A_s, A_s, S, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            S[i, j] = T.exp2(S[i, j])
        for _ in T.serial(3):
            for i, j in T.Parallel(64, 64):
                S[i, j] = S[i, j] + 1.0
        T.copy(S, C)


def only(kind):
    return [s for s in walk(main.body) if isinstance(s, kind)]


def test_a_gemm_takes_what_the_matrix_units_reach_by_warps():
    (gemm,) = only(Gemm)
    assert 64**3 == products(gemm)
    assert Work(64**3 // 256) == statement_work(gemm, RATES)


def test_a_machine_without_matrix_units_multiplies_by_its_lanes():
    (gemm,) = only(Gemm)
    assert Work(64**3 // 64) == statement_work(gemm, dataclasses.replace(RATES, matrix=0))


def test_arithmetic_takes_the_lanes_of_the_machine():
    exp, add = only(ParallelLoop)
    assert Work(9 * 64 * 64 // 64) == statement_work(exp, RATES)  # a special function counts as eight, and the store
    assert Work(2 * 64 * 64 // 64) == statement_work(add, RATES)


def test_special_functions_take_what_the_machine_has_for_them():
    exp, _ = only(ParallelLoop)
    assert Work(3 * 64 * 64 // 64) == statement_work(exp, dataclasses.replace(RATES, special=32))


def test_a_gemm_takes_as_many_cycles_as_the_caller_says():
    (gemm,) = only(Gemm)
    assert Work(77) == work_of_threads(gemm, RATES, lambda _: 77)


def test_a_loop_takes_all_its_iterations():
    (loop,), (_, add) = only(For), only(ParallelLoop)
    assert 3 * instructions(add, products, 8) == instructions(loop, products, 8)


def test_a_vote_takes_the_time_of_its_tile_and_not_of_what_is_to_be_complete():
    (gemm,), result = only(Gemm), Region(Buffer("exceeds", (), BOOL, Scope.VAR), (), ())
    assert 64 * 64 == instructions(AnyExceeds(gemm.c, 1.0, result, (gemm.a,)), products, 8)


def test_indices_of_registers_are_known_before_run_time_and_those_of_memory_are_not():
    def sum_of(scope):
        @T.prim_func
        def main(C: T.Tensor((128, 4), "float32")):
            with T.Kernel(1, threads=128):
                allocate = T.alloc_fragment if scope == "fragment" else T.alloc_shared
                S, terms = allocate((128, 128), "float32"), T.alloc_fragment((128, 4), "float32")
                T.clear(terms)
                for i, j, lane in T.Parallel(128, 32, 4):
                    terms[i, lane] += S[i, j * 4 + lane]
                T.copy(terms, C)

        (loop,) = (s for s in walk(main.body) if isinstance(s, ParallelLoop))
        return instructions(loop, products, 8)

    assert 2 * 128 * 128 == sum_of("fragment")  # an addition, which is stored
    assert 4 * 128 * 128 == sum_of("shared")
