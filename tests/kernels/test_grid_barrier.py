"""Kernels with grid barriers: writes of a block before one are visible to all blocks after it."""

import numpy as np
import pytest
from device_text import compile_cuda, needs_cuda_compiler
from gpu import lower_func, outcomes
from harness import run_reference_on_copies

import tilelang.language as T
from tilelang.errors import BarrierDivergence, DataRace, NoLowering
from tilelang.targets.nvidia.codegen.cuda import emit

BLOCKS, WIDTH = 5, 64


def relay(meets=True, rounds=3, thread=False):
    """Every block hands its row to the next block, some times."""

    @T.prim_func
    def main(A: T.Tensor((BLOCKS, WIDTH), "int32"), B: T.Tensor((BLOCKS, WIDTH), "int32")):
        with T.Kernel(BLOCKS, threads=64) as bx:
            s = T.alloc_shared((WIDTH,), "int32")
            for k in T.serial(rounds):
                T.copy(A[bx, 0], s)
                for i in T.Parallel(WIDTH):
                    B[(bx + 1) % BLOCKS, i] = s[i] * 2 + k
                if meets:
                    T.sync_grid()
                T.copy(B[bx, 0], s)
                for i in T.Parallel(WIDTH):
                    A[bx, i] = s[i]

    return main


def test_blocks_see_what_others_wrote_before_they_met():
    a = np.random.randint(-50, 50, (BLOCKS, WIDTH)).astype(np.int32)
    expected = a
    for k in range(3):
        expected = np.roll(expected, 1, 0) * 2 + k
    for after in outcomes(relay(), a, np.zeros_like(a)):
        # the next round's writes to B must not overtake this round's reads, so the relay needs a second meeting
        assert isinstance(after, DataRace)
    for after in outcomes(relay(rounds=1), a, np.zeros_like(a)):
        np.testing.assert_array_equal(np.roll(a, 1, 0) * 2, after[0])


def test_blocks_that_do_not_meet_race():
    a = np.zeros((BLOCKS, WIDTH), np.int32)
    assert all(isinstance(error, DataRace) for error in outcomes(relay(meets=False), a, np.zeros_like(a)))


def test_a_sum_over_the_grid_in_steps():
    @T.prim_func
    def main(A: T.Tensor((8, 32), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(8, threads=64) as bx:
            part = T.alloc_fragment((32,), "float32")
            T.copy(A[bx, 0], part)
            for step in T.unroll(3):
                T.sync_grid()
                if bx % (2 << step) == 0:
                    for i in T.Parallel(32):
                        part[i] += A[bx + (1 << step), i]
                    T.copy(part, A[bx, 0])
            if bx == 0:
                T.copy(part, B)

    a = np.random.randint(-9, 9, (8, 32)).astype(np.float32)
    for after in outcomes(main, a, np.zeros(32, np.float32)):
        np.testing.assert_array_equal(a.sum(0), after[1])


def test_a_block_that_stays_away_is_reported():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            if bx != 2:
                T.sync_grid()
            A[bx] = bx

    for error in outcomes(main, np.zeros(4, np.int32)):
        assert isinstance(error, BarrierDivergence)
        assert "block (2,) has ended without coming there" in str(error)
        assert "T.sync_grid()" in str(error)


def test_the_launch_is_a_cooperative_one():
    assert [True] == [launch.cooperative for launch in emit(lower_func(relay())).launches]
    assert [False] == [launch.cooperative for launch in emit(lower_func(relay(meets=False))).launches]


def test_blocks_of_the_reference_run_one_after_another_and_cannot_meet():
    a = np.zeros((BLOCKS, WIDTH), np.int32)
    with pytest.raises(NoLowering, match="T.sync_grid"):
        run_reference_on_copies(relay(), [a, np.zeros_like(a)])


@needs_cuda_compiler
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a", "sm_120a"])
def test_the_text_compiles(arch):
    assert compile_cuda(emit(lower_func(relay(), arch)).text, arch)
