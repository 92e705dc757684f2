"""Gemms by warp-level matrix instructions: plan, refusals and prefetch; those of vendors run in their own tests."""

import pytest
from invented.isa.matrix import MATRIX_MULTIPLY
from invented.lowerings.gemm_matrix import GemmMatrix
from lowered_gemm import Case

import tilelang.language as T
from tilelang.errors import ResourceError
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc, CallStmt
from tilelang.ir.visit import walk
from tilelang.jit.program import lowered
from tilelang.lowering.lowering import LoweringContext
from tilelang.options import CompileOptions
from tilelang.targets.target import Target

pytestmark = pytest.mark.usefixtures("invented")


def answer(case, threads=256, arch="wave64"):
    return GemmMatrix().accepts(case.gemm(), LoweringContext(Target("invented", arch), CompileOptions(), threads))


def test_the_plan_names_the_instruction_and_the_warps():
    assert "matrix_f32_32x32x8_f16 of 2 x 2 warps" == str(answer(Case(64, 64, 32)))
    assert "matrix_f32_32x32x8_f16 of 4 x 1 warps" == str(answer(Case(128, 32, 32, policy=T.GemmWarpPolicy.FullRow)))


@pytest.mark.parametrize(
    ("case", "arch", "reason"),
    [
        (Case(64, 64, 32, dtype="int8", accum="int32"), "wave64", "multiplies no int8 with sums in int32"),
        (Case(64, 64, 32), "wave64-plain", "wave64-plain multiplies no float16 with sums in float32"),
        (Case(64, 64, 32, a_scope=Scope.LOCAL), "wave64", "A is in scope local"),
    ],
)
def test_unsupported_gemms_are_refused(case, arch, reason):
    assert reason in answer(case, arch=arch).reason


def test_incomplete_warps_are_refused():
    with pytest.raises(ResourceError, match="96 threads are no whole number of warps of 64"):
        answer(Case(64, 64, 32), threads=96)


@pytest.mark.parametrize(("depth", "sets"), [(8, 1), (32, 2)])
def test_operands_of_the_next_step_are_prefetched(depth, sets):
    @T.prim_func
    def main(A: T.Tensor((64, depth), "float16"), B: T.Tensor((depth, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((64, depth), "float16"), T.alloc_shared((depth, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    program = lowered(main, Target("invented", "wave64"), CompileOptions())
    found = {s.buffer.name: s.buffer.shape[0].value for s in walk(program.body) if isinstance(s, Alloc) and s.buffer.rank}
    assert (4 * sets, 4 * sets) == (found["a_r"], found["b_r"])
    assert any(isinstance(s, CallStmt) and s.routine is MATRIX_MULTIPLY for s in walk(program.body))
