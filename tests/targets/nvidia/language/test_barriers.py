import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering, ProgramError, SimulationError
from tilelang.ir.buffer import Scope
from tilelang.ir.compare import digest
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc, CallStmt, If
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.tile.check_program import check_program
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.target import Target


def staged(body) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            body(A)

    return main


def called(func: PrimFunc) -> list[str]:
    return [stmt.routine.name for stmt in walk(func.body) if isinstance(stmt, CallStmt)]


def test_barriers_are_initialized_by_one_thread_and_then_seen_by_all() -> None:
    func = staged(lambda A: T.alloc_barrier([1, 2, 3]))
    assert ["mbarrier_init"] * 3 + ["sync_threads"] == called(func)
    (made,) = [s.buffer for s in walk(func.body) if isinstance(s, Alloc)]
    assert (Scope.BARRIER, (3,)) == (made.scope, made.static_shape)
    (guard,) = [s for s in walk(func.body) if isinstance(s, If)]
    assert ["mbarrier_init"] * 3 == [s.routine.name for s in walk(guard) if isinstance(s, CallStmt)]


def test_threads_arrive_and_wait() -> None:
    def body(A):
        bar = T.alloc_barrier(64)
        T.barrier_arrive(bar)
        T.barrier_wait(bar[0], 0)
        T.mbarrier_arrive(bar[0])
        T.mbarrier_wait_parity(bar, A[0] % 2)
        T.barrier_test_wait(bar, 0)
        T.cp_async_barrier_noinc(bar)
        T.ptx_cp_async_barrier(bar)

    kinds = "arrive wait arrive wait test_wait cp_async_arrive_noinc cp_async_arrive".split()
    assert [f"mbarrier_{kind}" for kind in kinds] == called(staged(body))[2:]


def test_bytes_are_announced_with_or_without_an_arrival() -> None:
    def body(A):
        bar = T.alloc_barrier([1, 1])
        T.mbarrier_expect_tx(bar[0], 16)
        T.mbarrier_arrive_expect_tx(bar[1], A[0] * 16)

    assert ["mbarrier_expect_tx", "mbarrier_arrive_expect_tx"] == called(staged(body))[3:]


def test_barriers_have_numbers_in_older_programs() -> None:
    def body(A):
        T.create_list_of_mbarrier(32, 64)
        T.mbarrier_arrive(1)
        T.mbarrier_arrive(T.get_mbarrier(0))
        for i in range(2):
            T.mbarrier_wait_parity(i, 0)

    assert ["mbarrier_arrive", "mbarrier_arrive", "mbarrier_wait", "mbarrier_wait"] == called(staged(body))[3:]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda A: T.alloc_barrier([]), "T.alloc_barrier: expected counts of arrivals"),
        (lambda A: T.alloc_barrier(0), "T.alloc_barrier: expected counts of arrivals from 1 to 1048575, got 0"),
        (lambda A: T.alloc_barrier(A[0]), "T.alloc_barrier: expected counts of arrivals"),
        (lambda A: T.barrier_arrive(0), "T.barrier_arrive: there is no list of barriers"),
        (lambda A: T.barrier_arrive(A), "T.barrier_arrive: expected a barrier"),
        (lambda A: T.barrier_arrive(T.alloc_barrier([1, 1])), "has several barriers"),
        (lambda A: T.barrier_wait(T.alloc_barrier(1), 2), "T.barrier_wait: 2 is no parity"),
        (lambda A: T.barrier_arrive(T.alloc_barrier([1, 1])[2]), "index 2"),
        (lambda A: T.mbarrier_expect_tx(T.alloc_barrier(1), -1), "T.mbarrier_expect_tx: -1 bytes, but a barrier counts"),
        (lambda A: T.get_mbarrier(0), "T.get_mbarrier: there is no list of barriers"),
        (lambda A: [T.create_list_of_mbarrier(1), T.create_list_of_mbarrier(1)], "the kernel has one already"),
    ],
)
def test_misuse_is_refused(body, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        staged(body)
    assert message in str(caught.value)


def test_barriers_are_not_allocated_in_branches() -> None:
    with pytest.raises(ProgramError, match="T.alloc_barrier: stands in a loop or branch"):

        @T.prim_func
        def main(A: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=64):
                if A[0] > 0:
                    T.alloc_barrier(1)


def test_older_gpus_have_none() -> None:
    func = staged(lambda A: T.alloc_barrier(1))
    with pytest.raises(NoLowering, match="T.alloc_barrier: sm_75 cannot do that"):
        check_program(func, PassContext(CompileOptions(), Target("cuda", "sm_75")))


def test_the_reference_has_none() -> None:
    with pytest.raises(NoLowering, match="reference interpreter"):
        run_reference(staged(lambda A: T.alloc_barrier(1)), [np.zeros(64, np.int32)])


def test_raw_forms_are_the_instructions_of_their_names():
    @T.prim_func
    def kernel(A: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            T.create_barriers(2)
            if T.get_thread_binding() == 0:
                T.ptx_init_barrier_thread_count(1, 32)
            T.ptx_fence_barrier_init()
            T.sync_threads()
            T.ptx_arrive_barrier(1)
            T.ptx_wait_barrier(mbarrier=1)
            T.ptx_arrive_barrier_expect_tx(0, 16)

    names = [s.routine.name for s in walk(kernel.body) if isinstance(s, CallStmt)]
    expected = ["mbarrier_init"] * 3 + ["fence_mbarrier_init", "sync_threads", "mbarrier_arrive", "mbarrier_wait"]
    assert [*expected, "mbarrier_arrive_expect_tx"] == [n for i, n in enumerate(names) if n != "sync_threads" or i > 2]


def test_waits_and_arrivals_take_the_barrier_by_keyword():
    @T.prim_func
    def kernel(A: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            bar = T.alloc_barrier(32)
            T.mbarrier_expect_tx(mbarrier=bar, tx=0)
            T.barrier_arrive(mbarrier=bar)
            T.mbarrier_wait_parity(mbarrier=bar, parity=0)

    names = [s.routine.name for s in walk(kernel.body) if isinstance(s, CallStmt)]
    assert ["mbarrier_expect_tx", "mbarrier_arrive", "mbarrier_wait"] == names[-3:]


def test_a_raw_count_must_be_one_that_barriers_have():
    with pytest.raises(ValueError, match="T.ptx_init_barrier_thread_count: expected counts of arrivals"):

        @T.prim_func
        def kernel(A: T.Tensor((1,), "float32")):
            with T.Kernel(1, threads=32):
                T.create_barriers(1)
                T.ptx_init_barrier_thread_count(0, 0)


def test_messages_name_the_function_that_was_called() -> None:
    @T.prim_func
    def twice(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            done = T.alloc_barrier(32)
            T.barrier_arrive(done)
            A[0] = 1

    for kwargs in ({"target": "c"}, {"execution_backend": "reference"}):
        with pytest.raises(NoLowering) as refused:
            tilelang.compile(twice, **kwargs)
        assert "T.alloc_barrier: is for single GPU threads, and target cpu has none" == refused.value.message
    kernel = tilelang.compile(twice, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")
    with pytest.raises(SimulationError) as wrong:
        kernel(np.zeros(64, np.int32))
    assert (
        "T.barrier_arrive: the arrival at 'done[0]' in its phase 1 may come before phase 0 is complete, and is then counted "
        "there"
    ) == wrong.value.message


def test_other_names_of_a_function_are_the_same_program() -> None:
    first, second = (staged(lambda A, arrive=arrive: arrive(T.alloc_barrier(1))) for arrive in (T.barrier_arrive, T.mbarrier_arrive))
    written = [stmt.written for func in (first, second) for stmt in walk(func.body) if isinstance(stmt, CallStmt)]
    assert {"T.alloc_barrier", "T.barrier_arrive", "T.mbarrier_arrive"} == set(written)
    assert digest(first) == digest(second)
