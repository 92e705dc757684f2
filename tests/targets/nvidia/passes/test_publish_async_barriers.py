"""Fences behind the initialization of barriers, and what waits say that engines may still read."""

import tilelang.language as T
from tilelang.ir.stmt import CallStmt, If, Seq
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.passes import publish_async_barriers
from tilelang.targets.target import Target


def connected(body, cluster=1):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(2, threads=128, cluster_dims=cluster):
            body(A, T.alloc_shared((64, 64), "float16"))

    return main, publish_async_barriers.PASS.run(main, PassContext(target=Target("cuda", "sm_90a")))


def calls(func):
    return [s for s in walk(func.body) if isinstance(s, CallStmt)]


def loads(count):
    def body(A, S):
        full = T.alloc_barrier([1] * count)
        T.tma_copy(A, S, barrier=full[0])

    return body


def test_barriers_that_count_bytes_are_made_known_by_the_thread_that_initializes_them():
    for count in (1, 3):
        _, func = connected(loads(count))
        (branch,) = [s for s in walk(func.body) if isinstance(s, If)]
        assert isinstance(branch.then_body, Seq)
        names = [s.routine.name for s in branch.then_body.body]
        assert ["mbarrier_init"] * count + ["fence_mbarrier_init"] == names


def test_barriers_of_clusters_are_made_known_once():
    _, func = connected(lambda A, S: T.alloc_barrier(1), cluster=2)
    assert 1 == sum(s.routine.name == "fence_mbarrier_init" for s in calls(func))
    _, func = connected(lambda A, S: T.alloc_cluster_barrier(1), cluster=2)
    assert 1 == sum(s.routine.name == "fence_mbarrier_init" for s in calls(func))


def test_barriers_of_threads_alone_stay_as_they_are():
    given, func = connected(lambda A, S: T.alloc_barrier(1))
    assert given is func


def test_waits_name_the_tiles_that_engines_read():
    def body(A, S):
        other = T.alloc_shared((64, 64), "float16")
        held = T.alloc_fragment((64, 64), "float32")
        T.wgmma_gemm(S, other, held)
        T.wait_wgmma(0)
        T.tma_copy(S, A)
        T.tma_store_wait(0)

    _, func = connected(body)
    read = {s.routine.name: [region.buffer.name for region in s.reads] for s in calls(func)}
    assert {"wgmma_wait_0": ["shared", "shared_1"], "tma_store_wait_read_0": ["shared"]} == read


def test_waits_name_the_tiles_of_products_that_need_not_be_over():
    def body(A, S):
        first, second = (T.alloc_shared((64, 64), "float16") for _ in range(2))
        held = T.alloc_fragment((64, 64), "float32")
        T.gemm(S, first, held, wg_wait=-1)
        T.gemm(second, second, held)
        T.wait_wgmma(0)

    _, func = connected(body)
    (wait,) = calls(func)
    assert ["shared", "shared_1"] == [region.buffer.name for region in wait.reads][:2]
    assert 2 == len(wait.reads)
