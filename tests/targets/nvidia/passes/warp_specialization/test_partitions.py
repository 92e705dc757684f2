"""The producer does nothing but loads; the consumers do all the rest."""

from specialized import launch_of

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.expr import Var, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind
from tilelang.ir.visit import walk
from tilelang.schedule.load_groups import find_load_groups, flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.multicast import ClusterBlocks
from tilelang.targets.nvidia.passes.warp_specialization.partitions import consumer, producer
from tilelang.targets.nvidia.passes.warp_specialization.pipeline_buffers import pipeline_buffer
from tilelang.targets.nvidia.schedule import Schedule

ALONE = ClusterBlocks((1, 1, 1), (const(0, INT32),) * 3)


def capabilities(func, stages=2):
    launch = flatten_sequences(launch_of(func))
    body, load_groups = launch.body, find_load_groups(launch, lambda copy: "").found
    pipelines = [pipeline_buffer(load_group, Schedule(1, stages), ALONE, wgmma_only=False) for load_group in load_groups]
    return producer(body, pipelines, ALONE), consumer(body, pipelines, Var("thread", INT32, index=True))


def paged():
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32"), pages: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=128):
            Q_s = T.alloc_shared((64, 64), "float16")
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            scale = T.alloc_var("float32", init=1.0)
            T.copy(A[0, 0], Q_s)
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2):
                page = pages[k]
                factor = scale * 2.0
                if page >= 0:
                    T.copy(A[page * 64, 0], A_s)
                    T.gemm(Q_s, A_s, C_l, transpose_B=True)
                    for i, j in T.Parallel(64, 64):
                        C_l[i, j] = C_l[i, j] * factor
                scale = factor
            T.copy(C_l, C)

    return main


def test_the_producer_keeps_the_control_flow_around_copies_and_the_names_they_use():
    first, second = capabilities(paged())
    bringing, computing = to_text(first), to_text(second)
    assert 2 == bringing.count("T.copy(")
    for demoted in ("for k in T.serial(4)", "page = pages[k]", "if page >= 0", "A[page * 64:"):
        assert demoted in bringing
    for dropped in ("factor", "T.gemm", "T.fill", "T.Parallel"):
        assert dropped not in bringing
    assert "T.copy(A" not in computing
    assert "factor = " in computing


def test_partitions_share_no_variables():
    first, second = capabilities(paged())
    bound = [{s.var for s in walk(role) if isinstance(s, Bind)} for role in (first, second)]
    assert not bound[0] & bound[1]


def test_waits_stand_before_the_first_use_and_releases_behind_the_last():
    lines = [line.strip() for line in to_text(capabilities(paged())[1]).splitlines()]
    query = lines.index("mbarrier_wait(Q_s_full, 0)")
    assert lines[query + 1].startswith("for k in T.serial(4)")
    wait = next(n for n, line in enumerate(lines) if line.startswith("mbarrier_wait(A_s_full"))
    assert lines[wait + 1].startswith("T.gemm(Q_s, A_s[")
    assert lines[wait + 2].startswith("sync_warp(")
    assert lines[wait + 4].startswith("mbarrier_arrive(A_s_empty")


def test_the_producer_creates_each_cache_policy_once():
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), W: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            W_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], A_s, eviction_policy="evict_last")
                T.copy(W[k * 64, 0], W_s, eviction_policy="evict_first")
                T.gemm(A_s, W_s, C_l)
            T.copy(C_l, C)

    lines = [line.strip() for line in to_text(capabilities(main)[0]).splitlines()]
    assert ["evict_last = l2_policy_evict_last()", "evict_first = l2_policy_evict_first()"] == lines[:2]
    assert 1 == sum("cache_policy=evict_last" in line for line in lines)
    assert 1 == sum("cache_policy=evict_first" in line for line in lines)
