"""The producer does nothing but loads; the consumers do all the rest."""

from specialized import launch_of

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.expr import const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind, Group
from tilelang.ir.visit import walk
from tilelang.schedule.load_groups import by_tiles, find_load_groups, flatten_sequences
from tilelang.schedule.multicast import ClusterBlocks
from tilelang.schedule.partitions import consumer, producer
from tilelang.schedule.pipeline_buffers import pipeline_buffers

ALONE = ClusterBlocks((1, 1, 1), (const(0, INT32),) * 3)


def capabilities(func, stages=2):
    launch = flatten_sequences(launch_of(func))
    body, load_groups = launch.body, find_load_groups(launch, lambda copy: "").found
    pipelines = [
        each
        for same_tiles in by_tiles(load_groups)
        for each in pipeline_buffers(
            same_tiles,
            stages if any(load_group.pipelined for load_group in same_tiles) else 1,
            (Group(128, 32), Group(0, 128)),
            128,
            only_mma_reads=False,
            multicast={},
            cluster=ALONE,
        )
    ]
    return producer(body, pipelines, ALONE), consumer(body, pipelines)


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
    query = lines.index("pipeline Q_s: wait(0, 0)")
    assert lines[query + 1].startswith("for k in T.serial(4)")
    wait = next(n for n, line in enumerate(lines) if line.startswith("pipeline A_s: wait"))
    assert lines[wait + 1].startswith("T.gemm(Q_s, A_s[")
    assert lines[wait + 2].startswith("pipeline A_s: release(")


def test_copies_stand_between_acquire_and_commit():
    lines = [line.strip() for line in to_text(capabilities(paged())[0]).splitlines()]
    acquire = lines.index("pipeline Q_s: acquire(0, 0)")
    assert lines[acquire + 1].startswith("T.copy(A[0:64, :], Q_s, barrier=Q_s_full)")
    assert "pipeline Q_s: commit(0)" == lines[acquire + 2]
