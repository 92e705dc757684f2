"""When threads that wait for copies to shared memory go on, by the clock of the model."""

import tilelang.language as T
from tilelang.ir.buffer import Buffer
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.performance.block import estimate_block
from tilelang.performance.load_barriers import LoadBarriers
from tilelang.targets.target import parse_target

TARGET = parse_target({"kind": "cuda", "arch": "sm_90a"})
RATES = TARGET.machine.rates
assert RATES is not None
LATENCY = RATES.memory_latency


def product(trips: int = 64) -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Tensor((128, 64 * trips), "float16"), B: T.Tensor((64 * trips, 64), "float16"), C: T.Tensor((128, 64), "float32")
    ) -> None:
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(trips, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return main


def launch(func: PrimFunc, stages: int) -> Launch:
    body = lowered(func, TARGET, CompileOptions.from_user({"tl.split": 1, "tl.stages": stages}, None)).body
    return next(stmt for stmt in walk(body) if isinstance(stmt, Launch))


def barriers(stages: int) -> tuple[LoadBarriers, Buffer, Buffer]:
    assert RATES is not None
    made = LoadBarriers(launch(product(), stages).body, RATES)
    ((full, empty),) = made.releases.items()
    return made, full, empty


def test_copies_begin_when_the_barrier_of_their_release_is_complete() -> None:
    _, full, empty = barriers(2)
    assert ["a_full", "a_empty"] == [full.name, empty.name]


def test_the_first_wait_includes_the_start_of_the_block() -> None:
    assert RATES is not None
    made, full, _ = barriers(2)
    assert RATES.block + RATES.first_box_copy * LATENCY == made.ready(full, 0.0)


def test_a_tile_of_one_stage_is_complete_a_latency_after_its_release() -> None:
    made, full, empty = barriers(1)
    made.ready(full, 0.0)
    assert 5000.0 == made.ready(full, 5000.0)  # nothing has been released
    made.arrive(empty, 5000.0)
    assert 5000.0 + LATENCY == made.ready(full, 5100.0)
    made.advance(1000.0)
    assert 6000.0 + LATENCY == made.ready(full, 6100.0)
    assert 0.0 == made.least_iteration(full)


def test_several_stages_bound_an_iteration_instead() -> None:
    made, full, empty = barriers(3)
    made.ready(full, 0.0)
    made.arrive(empty, 5000.0)
    assert 5100.0 == made.ready(full, 5100.0)
    assert LATENCY / 2 == made.least_iteration(full)


def test_one_stage_shows_the_latency_of_every_iteration() -> None:
    assert RATES is not None
    one, two = (
        estimate_block(launch(product(), stages), TARGET.machine, RATES, (0,), 64, fast_math=False).duration
        for stages in (1, 2)
    )
    assert one > 64 * (LATENCY + 64)
    assert one - two > 63 * 64
