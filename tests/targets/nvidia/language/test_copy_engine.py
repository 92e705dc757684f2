import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, StagingError
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy


def staged(body) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16")):
        with T.Kernel(1, threads=128):
            body(A, T.alloc_shared((2, 64, 64), "float16"))

    return main


def copies(func: PrimFunc) -> list[Copy]:
    return [s for s in walk(func.body) if isinstance(s, Copy)]


def called(func: PrimFunc) -> list[str]:
    return [s.routine.name for s in walk(func.body) if isinstance(s, CallStmt)]


def test_a_load_is_counted_by_its_barrier_and_done_by_nothing_else() -> None:
    def body(A, S):
        full = T.alloc_barrier([1, 1])
        T.tma_copy(A[64, 0], S[1, :, :], barrier=full[1], eviction_policy="evict_first")

    (copy,) = copies(staged(body))
    assert ("copy.tma", "T.tma_copy", "evict_first") == (copy.required_lowering, copy.name, copy.eviction)
    assert copy.barrier is not None
    assert [1] == [start.value for start in copy.barrier.start]
    assert not copy.is_async


def test_a_store_is_awaited_by_the_program() -> None:
    def body(A, S):
        T.tma_copy(S[0, :, :], A[0:64, :])
        T.tma_store_arrive()
        T.tma_store_wait()
        T.tma_store_wait(1, read=False)

    func = staged(body)
    (copy,) = copies(func)
    assert ("copy.tma_store", True) == (copy.required_lowering, copy.is_async)
    assert ["tma_store_commit", "tma_store_wait_read_0", "tma_store_wait_1"] == called(func)


def test_one_of_so_many_threads_starts_the_engine() -> None:
    def body(A, S):
        T.tma_copy(A[0:64, :], S[0, :, :], barrier=T.alloc_barrier(1), leader_scope_threads=64)
        T.tma_copy(S[1, :, :], A[0:64, :], annotations={"leader_scope_threads": 32, "order": 1})

    assert [64, 32] == [copy.leaders for copy in copies(staged(body))]


def test_four_rows_have_so_many_bytes() -> None:
    assert (512, 128) == (T.tma_gather4_bytes(64, "float16"), T.tma_gather4_bytes(32, T.int8))


def test_fences_name_the_memory_that_was_written() -> None:
    def body(A, S):
        T.fence_proxy_async()
        T.fence_proxy_async("global")

    assert ["fence_proxy_async", "fence_proxy_async_global"] == called(staged(body))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda A, S: T.tma_copy(A[0, 0], S[0, :, :]), "T.tma_copy: there is no barrier to count the bytes"),
        (
            lambda A, S: T.tma_copy(S[0, :, :], A[0, 0], barrier=T.alloc_barrier(1)),
            "T.tma_copy: a barrier counts the bytes of copies from global to shared memory",
        ),
        (lambda A, S: T.tma_copy(S[0, :, :], S[1, :, :]), "copies tiles between global and shared memory"),
        (lambda A, S: T.tma_copy(A[0, 0], S[0, :, :], barrier=S), "T.tma_copy: expected a barrier"),
        (lambda A, S: T.tma_copy(A[0, 0], S[0, :, :], barrier=T.alloc_barrier(1), eviction_policy="never"), "eviction_policy is 'never'"),
        (lambda A, S: T.tma_copy(S[0, :, :], A[0, 0], cluster_mask=1), "T.tma_copy: only loads are multicast"),
        (lambda A, S: T.tma_copy(S[0, :, :], A[0, 0], leader_scope_threads=48), "T.tma_copy: leader_scope_threads is 48"),
        (lambda A, S: T.tma_store_wait(-1), "T.tma_store_wait: -1 groups cannot be left pending"),
        (lambda A, S: T.tma_store_wait(A[0, 0]), "T.tma_store_wait: count must be an int"),
        (lambda A, S: T.fence_proxy_async("local"), "T.fence_proxy_async: 'local' is no memory"),
    ],
)
def test_misuse_is_refused(body, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        staged(body)
    assert message in str(caught.value)


def test_they_stand_in_kernels() -> None:
    with pytest.raises(StagingError, match="T.tma_copy: may only be used inside a kernel"):
        T.tma_copy(None, None)
