"""Which loops of consumers are software-pipelined, and what is prepared for it."""

import pytest
from specialized import launch_of, warp_specialize

import tilelang.language as T
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.targets.nvidia.schedule import schedule_of


def two_gemms(what):
    """S = A B; P = f(S); C += P B, with something that decides whether it can be pipelined."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((512, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_s)
            T.clear(C_l)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    S[i, j] = T.exp2(T.min(S[i, j], 0.0))
                    if what == "reads the result":
                        S[i, j] = S[i, j] + C_l[i, j]
                if what == "converts":
                    T.gemm(S, B_s, C_l)
                else:
                    T.copy(S, P)
                    T.gemm(P, B_s, C_l)
            T.copy(C_l, C)

    return main


@pytest.mark.parametrize("what", ["nothing", "converts"])
def test_a_loop_is_pipelined_where_that_saves_cycles(what):
    launch = launch_of(warp_specialize(two_gemms(what), stages=2))
    ((_, made),) = schedule_of(launch).loops
    assert 2 == made.stages
    assert [-1] * 4 == [s.wait for s in walk(launch) if isinstance(s, Gemm)]
    assert any(isinstance(s, GemmWait) for s in walk(launch))


def test_an_operand_of_another_dtype_is_converted_into_a_fragment_outside_of_the_loop():
    launch = launch_of(warp_specialize(two_gemms("converts"), stages=2))
    (operand,) = [s.buffer for s in walk(launch) if isinstance(s, Alloc) and s.buffer.dtype == "float16" and s.buffer.name == "S"]
    assert {operand, "A_s"} == {s.a.buffer if s.a.buffer is operand else s.a.buffer.name for s in walk(launch) if isinstance(s, Gemm)}


def test_a_dependence_of_the_first_part_on_the_last_result_leaves_the_loop_in_order():
    launch = launch_of(warp_specialize(two_gemms("reads the result"), stages=2))
    assert () == schedule_of(launch).loops
    assert [0, 0] == [s.wait for s in walk(launch) if isinstance(s, Gemm)]


def test_one_version_of_the_tiles_leaves_the_loop_in_order():
    assert () == schedule_of(launch_of(warp_specialize(two_gemms("nothing"), stages=1))).loops
