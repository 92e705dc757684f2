import pytest

import tilelang.language as T
from tilelang.errors import NoLowering, ProgramError
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk


def staged(body) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=64, cluster_dims=2):
            body(A, T.alloc_shared((64,), "float32"))

    return main


def calls(func: PrimFunc) -> list[CallStmt]:
    return [s for s in walk(func.body) if isinstance(s, CallStmt)]


def called(func: PrimFunc) -> list[str]:
    return [s.routine.name for s in calls(func)]


def test_blocks_know_their_place_and_meet() -> None:
    def body(A, S):
        A[T.block_rank_in_cluster()] = T.get_cluster_block_nums()
        T.cluster_arrive()
        T.cluster_arrive_relaxed()
        T.cluster_wait()
        T.cluster_sync()
        T.sync_cluster()

    meeting = ["cluster_arrive", "cluster_wait"]
    expected = ["cluster_rank", "cluster_size", "cluster_arrive", "cluster_arrive_relaxed", "cluster_wait"]
    assert sorted([*expected, *meeting, *meeting]) == sorted(called(staged(body)))


def test_places_in_other_blocks_are_those_of_ones_own() -> None:
    def body(A, S):
        full = T.alloc_cluster_barrier(1)
        T.cluster_store(S[3], 1, T.cluster_load(S[2], 1) + 1)
        T.cluster_store_async(S[4], 1, 2.0, full)
        T.barrier_arrive(full, 1)
        T.mbarrier_arrive(full, cta_id=0)

    found = calls(staged(body))
    accesses = {s.routine.name: s for s in found if s.routine.name.startswith(("cluster_load", "cluster_store"))}
    assert ["cluster_load_float32", "cluster_store_float32", "cluster_store_async_float32"] == list(accesses)
    assert accesses["cluster_load_float32"].reads and accesses["cluster_store_float32"].writes
    assert ["mbarrier_arrive_remote"] * 2 == [s.routine.name for s in found][-2:]


def test_barriers_of_clusters_are_made_known_and_then_the_blocks_meet() -> None:
    names = called(staged(lambda A, S: T.alloc_cluster_barrier([1, 2])))
    assert ["mbarrier_init", "mbarrier_init", "fence_mbarrier_init", "cluster_arrive", "cluster_wait"] == names


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (lambda A, S: T.cluster_load(A[0], 1), ProgramError, "T.cluster_load: 'A' is in scope 'global'"),
        (lambda A, S: T.cluster_store(3, 1, 2), ProgramError, "3"),
        (lambda A, S: T.cluster_store_async(S[0], 1, 2, S), ProgramError, "expected a barrier"),
        (
            lambda A, S: T.cluster_store_async(T.alloc_shared((4,), "float16")[0], 1, 2, T.alloc_barrier(1)),
            NoLowering,
            "st.async: no access of 2 bytes",
        ),
    ],
)
def test_misuse_is_refused(body, kind, message: str) -> None:
    with pytest.raises(kind) as caught:
        staged(body)
    assert message in str(caught.value)
