import pytest

import tilelang.language as T
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.performance.block import estimate_block
from tilelang.performance.work import BlockWork, Unit
from tilelang.targets.target import parse_target

TARGET = parse_target({"kind": "cuda", "arch": "sm_90a"})
RATES = TARGET.machine.rates
assert RATES is not None


def work(func: PrimFunc, block: tuple[int, ...] = (0,)) -> BlockWork:
    body = lowered(func, TARGET, CompileOptions.from_user({"tl.split": 1}, None)).body
    launch = next(stmt for stmt in walk(body) if isinstance(stmt, Launch))
    return estimate_block(launch, TARGET.machine, RATES, block, 64, fast_math=False)


def doubled(trips: int) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64, 1024), "float32"), B: T.Tensor((64, 1024), "float32")) -> None:
        with T.Kernel(1, threads=128):
            for k in T.serial(trips):
                for i in T.Parallel(1024):
                    B[k, i] = T.exp(A[k, i])

    return main


def test_bytes_and_functions_are_those_of_all_iterations() -> None:
    found = work(doubled(64))
    assert {"A": 4 * 64 * 1024} == {buffer.name: size for buffer, size in found.loaded.items()}
    assert {"B": 4 * 64 * 1024} == {buffer.name: size for buffer, size in found.stored.items()}
    assert 64 * 1024 / 16 == pytest.approx(found.cycles[Unit.SPECIAL])


def test_time_alone_grows_with_the_iterations() -> None:
    assert RATES is not None
    few, many = work(doubled(8)), work(doubled(64))
    assert 7 < (many.duration - RATES.block) / (few.duration - RATES.block) < 8.5
    assert 60 * RATES.memory_latency / 4 < many.memory_stalls < 64 * RATES.memory_latency  # four iterations are merged


def product(threads: int) -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Tensor((128, 1024), "float16"), B: T.Tensor((1024, 128), "float16"), C: T.Tensor((128, 128), "float32")
    ) -> None:
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(16, num_stages=4):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("threads", [128, 256])
def test_matrix_work_does_not_depend_on_the_warpgroups(threads: int) -> None:
    assert RATES is not None
    found = work(product(threads))
    assert 2 * 128 * 128 * 1024 / RATES.matrix == pytest.approx(found.matrix_cycles)
    assert found.duration > found.matrix_cycles
    assert 2 * 2 * 128 * 1024 == pytest.approx(sum(found.loaded.values()))


def test_warps_without_an_iteration_do_nothing() -> None:
    def exponentials(step: int) -> PrimFunc:
        """Of four warps each executes every `step`-th iteration, from that of its number on."""

        @T.prim_func
        def main(A: T.Tensor((8, 128), "float32"), B: T.Tensor((8, 128), "float32")) -> None:
            with T.Kernel(1, threads=128):
                thread = T.get_thread_binding()
                for k in T.serial(thread // 32, 2, step):
                    B[k, thread] = T.exp(A[k, thread])

        return main

    two, one = (work(exponentials(4)), work(exponentials(1)))
    assert 2 * 32 / 16 == pytest.approx(two.cycles[Unit.SPECIAL])
    assert 2 * 32 * 4 == sum(two.stored.values())
    assert two.duration <= one.duration


def test_blocks_with_more_iterations_take_longer() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 1024), "float32"), B: T.Tensor((64, 1024), "float32")) -> None:
        with T.Kernel(64, threads=128) as b:
            for k in T.serial(b + 1):
                for i in T.Parallel(1024):
                    B[k, i] = A[k, i]

    assert work(main, (63,)).duration > 5 * work(main, (0,)).duration


def test_what_warps_vote_on_takes_a_part_of_its_time() -> None:
    def exponentials(vote: bool) -> PrimFunc:
        @T.prim_func
        def main(A: T.Tensor((32,), "float32"), B: T.Tensor((64, 32), "float32")) -> None:
            with T.Kernel(1, threads=32):
                lane = T.get_thread_binding()
                condition = T.any_sync(0xFFFFFFFF, A[lane] > 0) if vote else T.shfl_sync(A[lane], 0) > 0
                if condition:
                    for k in T.serial(64):
                        B[k, lane] = T.exp(A[lane] + k)

        return main

    always, seldom = (work(exponentials(vote)) for vote in (False, True))
    assert 0.2 < seldom.cycles[Unit.SPECIAL] / always.cycles[Unit.SPECIAL] < 0.3
    assert seldom.duration < 0.6 * always.duration


def test_of_two_bodies_between_which_warps_choose_by_a_vote_the_second_is_what_they_mostly_do() -> None:
    def exponentials(seldom: int, mostly: int) -> PrimFunc:
        @T.prim_func
        def main(A: T.Tensor((32,), "float32"), B: T.Tensor((64, 32), "float32")) -> None:
            with T.Kernel(1, threads=32):
                lane = T.get_thread_binding()
                chosen = T.alloc_var("bool")
                chosen = T.any_sync(0xFFFFFFFF, A[lane] > 0)
                if chosen:
                    for k in T.serial(seldom):
                        B[k, lane] = T.exp(A[lane] + k)
                else:
                    for k in T.serial(mostly):
                        B[k, lane] = T.exp(A[lane] - k)

        return main

    least, long_seldom, long_mostly = (work(exponentials(*trips)) for trips in ((1, 1), (64, 1), (1, 64)))
    assert long_seldom.cycles[Unit.SPECIAL] < 3 * least.cycles[Unit.SPECIAL] < long_mostly.cycles[Unit.SPECIAL] / 10
    assert long_seldom.duration < 1.3 * least.duration < long_mostly.duration / 2
