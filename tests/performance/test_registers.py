import dataclasses

import tilelang.language as T
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.performance.registers import (
    blocks_at_once,
    blocks_for_registers,
    expected_registers,
    registers_for_blocks,
)
from tilelang.targets.target import parse_target

TARGET = parse_target({"kind": "cuda", "arch": "sm_90a"})


def registers(func: PrimFunc) -> int:
    body = lowered(func, TARGET, CompileOptions.from_user(None, None)).body
    launch = next(stmt for stmt in walk(body) if isinstance(stmt, Launch))
    assert TARGET.machine.rates is not None
    return expected_registers(launch, TARGET.machine, TARGET.machine.rates)


def rows(columns: int, parts: int, threads: int = 128) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64, parts * columns), "float32"), B: T.Tensor((64, parts * columns), "float32")) -> None:
        with T.Kernel(64, threads=threads) as b:
            for part in T.unroll(parts):
                tile = T.alloc_fragment((columns,), "float32")
                T.copy(A[b, part * columns], tile)
                for j in T.Parallel(columns):
                    B[b, part * columns + j] = tile[j] * 2.0

    return main


def test_small_kernels_have_the_fewest() -> None:
    assert 32 == registers(rows(128, 1))


def test_arrays_that_are_live_together_add_up() -> None:
    assert 64 + 20 <= registers(rows(128 * 64, 1)) <= 64 + 40


def test_arrays_that_follow_each_other_share_registers() -> None:
    assert registers(rows(128 * 32, 3)) < 3 * 32 + 20


def test_threads_share_the_registers_of_a_multiprocessor() -> None:
    assert 64 == registers(rows(1024 * 128, 1, threads=1024))


def test_warps_are_spread_over_the_register_files() -> None:
    machine = TARGET.machine
    assert [168, 128] == [registers_for_blocks(2, threads, machine) for threads in (160, 256)]
    for blocks, threads in ((1, 288), (2, 160), (2, 256), (3, 96)):
        most = registers_for_blocks(blocks, threads, machine)
        assert blocks <= blocks_for_registers(most, threads, machine)
        assert blocks_for_registers(most + 1, threads, machine) < blocks
    assert 1 == blocks_for_registers(177, 160, machine)  # 10 warps would be 3 in some file, which has room for 2


def test_blocks_at_once_are_limited_by_each_resource() -> None:
    assert 16 == blocks_at_once(128, 0, 32, TARGET.machine)
    assert 4 == blocks_at_once(128, 0, 128, TARGET.machine)
    assert 2 == blocks_at_once(128, 100 * 1024, 32, TARGET.machine)
    assert 2 == blocks_at_once(1024, 0, 32, TARGET.machine)
    assert [2, 1] == [blocks_at_once(160, 0, count, TARGET.machine) for count in (168, 169)]
    none_reserved = dataclasses.replace(TARGET.machine, reserved_shared=0)
    assert 16 == blocks_at_once(128, 0, 32, none_reserved)


def test_launches_of_several_blocks_at_once_have_no_more_than_these_share() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 128 * 160), "float32"), B: T.Tensor((64, 128 * 160), "float32")) -> None:
        with T.Kernel(64, threads=128) as b:
            T.annotate_min_blocks_per_sm(4)
            tile = T.alloc_fragment((128 * 160,), "float32")
            T.copy(A[b, 0], tile)
            T.copy(tile, B[b, 0])

    assert 128 == registers(main)
