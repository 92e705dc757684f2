"""Registers that tiles take, and that consumers and the producer get."""

import pytest
from examples_of import load
from specialized import TARGET, gemm_kernel, launch_of

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.backend import LOWERINGS
from tilelang.targets.nvidia.machines import MACHINES
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import (
    fits_ping_pong,
    live_tile_registers,
    producer_and_registers,
    registers_for_tiles,
    rows_in_registers,
    tile_registers,
)

MACHINE = MACHINES["sm_90a"]


def fragment(*shape, dtype="float32"):
    return Buffer("F", tuple(map(as_expr, shape)), as_dtype(dtype), Scope.FRAGMENT)


@pytest.mark.parametrize(
    "tile,consumers,expected",
    [
        (fragment(128, 128), 1, 128),
        (fragment(128, 128), 2, 64),
        (fragment(128, 128, dtype="float16"), 2, 32),
        (fragment(64, 3), 1, 2),  # rounded up
        (fragment(128), 2, 2),  # two rows of an accumulator
    ],
)
def test_a_thread_holds_its_share_of_a_tile(tile, consumers, expected) -> None:
    assert expected == tile_registers(tile, consumers, {})


@pytest.mark.parametrize(("rows", "registers"), [(64, 64), (32, 64), (16, 64), (80, 128), (128, 128)])
def test_matrix_instructions_have_multiples_of_64_rows(rows, registers) -> None:
    launch = launch_of(gemm_kernel(rows * 2, 256, 256, rows, 128, 64))
    held = rows_in_registers((launch.body,))
    (tile,) = held or (fragment(rows, 128),)
    assert registers == tile_registers(tile, 1, held) == live_tile_registers(launch, 1)


@pytest.mark.parametrize(("policy", "of_a"), [("FullRow", 32), ("FullCol", 64)])
def test_warpgroups_that_divide_columns_all_hold_the_left_operand(policy, of_a) -> None:
    @T.prim_func
    def main(A: T.Tensor((128, 128), "float16"), B: T.Tensor((128, 256), "float16"), C: T.Tensor((128, 256), "float32")):
        with T.Kernel(1, threads=256):
            A_l = T.alloc_fragment((128, 128), "float16")
            B_s = T.alloc_shared((128, 256), "float16")
            C_l = T.alloc_fragment((128, 256), "float32")
            T.copy(A, A_l)
            T.copy(B, B_s)
            T.gemm(A_l, B_s, C_l, clear_accum=True, policy=T.GemmWarpPolicy[policy])
            T.copy(C_l, C)

    launch, capabilities = launch_of(main), target_capabilities(main, LOWERINGS, PassContext(CompileOptions(), TARGET))
    planned = capabilities.with_plans(launch, [s for s in walk(launch.body) if isinstance(s, Gemm)], 256)
    assert 128 + of_a == live_tile_registers(planned, 2)


def test_reordered_loops_with_accesses_to_memory_leave_more_registers_to_other_values() -> None:
    for consumers in (1, 2, 3, 4):
        reordered, overlapped = (
            registers_for_tiles(consumers, reordered_accesses=True, stages=stages) for stages in (1, 2)
        )
        assert 0 < overlapped < reordered < registers_for_tiles(consumers)
    assert registers_for_tiles(5) < 0
    assert 0 < registers_for_tiles(2, 2) < registers_for_tiles(1, 2) < registers_for_tiles(1)
    assert registers_for_tiles(3, 2) < 0


def test_registers_move_from_the_producer_where_tiles_need_more_than_all_threads_have() -> None:
    launch = launch_of(gemm_kernel(256, 256, 256, 128, 256, 64))
    assert 128 == live_tile_registers(launch, 2)
    assert (32, None) == producer_and_registers(launch, 2, 128, MACHINE, counts=False)
    assert (128, (240, 24)) == producer_and_registers(launch, 2, 192, MACHINE, counts=False)
    assert (128, (232, 40)) == producer_and_registers(launch, 2, 192, MACHINE, counts=True)


def test_special_functions_of_several_tiles_take_more_registers() -> None:
    launch = launch_of(load("02_gemm/gated_mlp.py").gated_mlp.get_tir(4096, 4096, 14336, 128, 128, 64, 4, 256))
    assert 128 == live_tile_registers(launch, 2)
    assert (128, (240, 24)) == producer_and_registers(launch, 2, 128, MACHINE, counts=False)
    assert (32, None) == producer_and_registers(launch, 2, 96, MACHINE, counts=False)


def test_special_functions_of_several_parts_of_a_tile_take_more_registers() -> None:
    def of(first):
        @T.prim_func
        def main(C: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128):
                C_l = T.alloc_fragment((64, 128), "float32")
                T.clear(C_l)
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] = T.exp(C_l[i, j]) * (C_l[i, j + first] if first else C_l[i, j])
                T.copy(C_l[:, 0:64], C)

        return producer_and_registers(launch_of(main), 2, 128, MACHINE, counts=False)

    assert ((32, None), (128, (240, 24))) == (of(0), of(64))


def test_an_epilogue_that_computes_takes_more_registers_in_ping_pong() -> None:
    launch = launch_of(load("02_gemm/gemm_epilogues.py").residual.get_tir(4096, 4096, 1024))
    assert (32, None) == producer_and_registers(launch, 2, 128, MACHINE, counts=False)
    assert (128, (240, 24)) == producer_and_registers(launch, 2, 128, MACHINE, counts=False, ping_pong=True)
    assert fits_ping_pong(launch)
    assert not fits_ping_pong(launch_of(load("02_gemm/gemm_epilogues.py").residual.get_tir(4096, 4096, 1024, block_N=192)))
    assert fits_ping_pong(launch_of(gemm_kernel(4096, 4096, 1024, 128, 192)))
    plain = launch_of(gemm_kernel(4096, 4096, 1024))
    assert (32, None) == producer_and_registers(plain, 2, 128, MACHINE, counts=False, ping_pong=True)


def test_an_epilogue_that_stores_some_rows_takes_no_more_registers_in_ping_pong() -> None:
    func = load("02_gemm/grouped_gemm.py").grouped.get_tir(8, 16384, 4096, 4096, block_N=192)
    assert fits_ping_pong([s for s in walk(func.body) if isinstance(s, Launch)][1])


def test_two_blocks_at_once_move_registers_earlier() -> None:
    launch = launch_of(gemm_kernel(256, 256, 256, 64, 128, 64))
    assert (32, None) == producer_and_registers(launch, 1, 128, MACHINE, counts=False)
    assert (32, None) == producer_and_registers(launch, 1, 112, MACHINE, 2, counts=False)  # of 168
    assert (128, (232, 24)) == producer_and_registers(launch, 1, 128, MACHINE, 2, counts=False)
    assert (128, (216, 40)) == producer_and_registers(launch, 1, 128, MACHINE, 2, counts=True)
