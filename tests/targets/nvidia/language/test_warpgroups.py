import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm, GemmWarpPolicy


def staged(body) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            body(T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32"))

    return main


def called(func: PrimFunc) -> list[str]:
    return [s.routine.name for s in walk(func.body) if isinstance(s, CallStmt)]


def launch_of(func: PrimFunc) -> Launch:
    (launch,) = [s for s in walk(func.body) if isinstance(s, Launch)]
    return launch


def test_a_product_is_begun_and_not_awaited() -> None:
    def body(S, C):
        T.wgmma_gemm(S, S, C, transpose_b=True, policy=GemmWarpPolicy.FullCol, clear_accum=True)

    (product,) = [s for s in walk(staged(body).body) if isinstance(s, Gemm)]
    assert ("gemm.wgmma", "T.wgmma_gemm", -1) == (product.required_lowering, product.name, product.wait)
    assert (False, True, GemmWarpPolicy.FullCol) == (product.transpose_a, product.transpose_b, product.policy)
    assert product.always_clears


def test_what_stands_around_products() -> None:
    def body(S, C):
        T.warpgroup_arrive()
        T.warpgroup_commit_batch()
        T.warpgroup_wait(1)
        T.wait_wgmma()
        T.warpgroup_fence_operand(C, num_regs=32)

    assert ["wgmma_fence", "wgmma_commit", "wgmma_wait_1", "wgmma_wait_0"] == called(staged(body))


def test_registers_go_either_way_and_their_kernel_is_bounded() -> None:
    def body(S, C):
        T.set_max_nreg(24, 0)
        T.set_max_nreg(240, True)
        T.dec_max_nreg(32)
        T.inc_max_nreg(40)
        T.annotate_producer_reg_dealloc()
        T.annotate_consumer_reg_alloc()

    func = staged(body)
    moves = ["dec_24", "inc_240", "dec_32", "inc_40", "dec_24", "inc_240"]
    assert [f"set_max_registers_{move}" for move in moves] == called(func)
    assert launch_of(func).hints.min_blocks_per_sm == 1


@pytest.mark.parametrize("name", ["disable_warp_group_reg_alloc", "no_set_max_nreg"])
def test_the_compiler_can_be_kept_from_moving_registers(name: str) -> None:
    assert launch_of(staged(lambda S, C: None)).hints.move_registers
    assert not launch_of(staged(lambda S, C: getattr(T, name)())).hints.move_registers


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda S, C: T.set_max_nreg(100, True), "T.set_max_nreg: 100 registers, but a thread can have multiples of 8"),
        (lambda S, C: T.inc_max_nreg(264), "T.inc_max_nreg: 264 registers"),
        (lambda S, C: T.dec_max_nreg(16), "T.dec_max_nreg: 16 registers"),
        (lambda S, C: T.wait_wgmma(8), "T.wait_wgmma: 8 groups cannot be left pending"),
        (lambda S, C: T.warpgroup_wait(-1), "T.warpgroup_wait: -1 groups cannot be left pending"),
        (lambda S, C: T.wgmma_gemm(S, S[:, 0:32], C), "T.wgmma_gemm: A is (64, 64) and B is (64, 32), but C is"),
        (lambda S, C: T.wgmma_gemm(S, S, C, policy=1), "T.wgmma_gemm: policy is 1"),
        (lambda S, C: T.warpgroup_fence_operand(3), "T.warpgroup_fence_operand"),
    ],
)
def test_misuse_is_refused(body, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        staged(body)
    assert message in str(caught.value)
