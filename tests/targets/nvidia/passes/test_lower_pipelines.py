"""Pipelines become mbarriers and named barriers; partitions get their registers, and an elected thread."""

import pytest
from specialized import gemm_kernel, launch_of, warp_specialize

from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, const
from tilelang.ir.pipeline import (
    Acquire,
    Commit,
    InitPipelines,
    OrderArrive,
    OrderBarrier,
    OrderWait,
    Pipeline,
    PipelineStmt,
    Release,
    ReleaseTo,
    StoreWait,
    Wait,
    barriers,
)
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Group, If, Seq
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.schedule.unread_stages import unread_releases
from tilelang.targets.nvidia.passes import lower_pipelines
from tilelang.targets.nvidia.schedule import Schedule

THREAD, RANK = Var("thread", INT32, index=True), Var("rank", INT32, index=True)
ZERO = const(0, INT32)


def pipeline(stages=2, **options):
    tile = Buffer("K", (const(stages, INT32),), INT32, Scope.SHARED)
    given = {"full": barriers("full", stages), "empty": barriers("empty", stages), "producer": Group(256, 32), "consumers": Group(0, 256), "readers": 256, "bytes": 64}
    return Pipeline("K", (tile,), stages, **(given | options))


def lines(*statements):
    lower = lower_pipelines._Lower(THREAD, Schedule(2, 2), unread_releases(Seq(statements), Domain()))
    return [line.strip() for line in to_text(lower.visit(Seq(statements))).splitlines()]


def test_producers_announce_bytes_and_copies_complete_the_fill():
    each = pipeline()
    expected = ["mbarrier_wait(empty[1:2], 1)", "mbarrier_arrive_expect_tx(full[1:2], 64)"]
    assert expected == lines(Acquire(each, const(1, INT32), ZERO), Commit(each, const(1, INT32)))


def test_producers_that_store_elements_arrive_behind_them():
    each = pipeline(bytes=0)
    assert ["mbarrier_wait(empty[0:1], 1)", "mbarrier_arrive(full[0:1])"] == lines(Acquire(each, ZERO, ZERO), Commit(each, ZERO))


def test_nobody_waits_for_a_stage_that_is_filled_once():
    assert ["mbarrier_arrive_expect_tx(full[0:1], 64)"] == lines(Acquire(pipeline(empty=None), ZERO, ZERO))


def test_consumers_wait_and_arrive_as_warpgroups_or_as_warps():
    assert ["mbarrier_wait(full[0:1], 1)"] == lines(Wait(pipeline(), ZERO, const(1, INT32)))
    together = lines(Release(pipeline(only_mma_reads=True), ZERO))
    assert ["if thread % 128 == 0:", "mbarrier_arrive(empty[0:1])"] == together
    expected = ["sync_warp(T.uint32(4294967295))", "if thread % 32 == 0:", "mbarrier_arrive(empty[0:1])"]
    assert expected == lines(Release(pipeline(), ZERO))


def test_a_warpgroup_meets_before_it_releases_a_stage_that_no_gemm_has_read():
    each = pipeline(only_mma_reads=True)
    expected = ["mbarrier_wait(full[0:1], 0)", "bar_sync(3 + thread // 128, 128)", "if thread % 128 == 0:"]
    assert expected == lines(Wait(each, ZERO, ZERO), Release(each, ZERO))[:3]
    each = pipeline(only_mma_reads=True, blocks=2)
    made = lines(ReleaseTo(each, (RANK, RANK + 1)), Wait(each, ZERO, ZERO), Release(each, ZERO))
    assert [*expected[:2], "if thread % 128 < 2:"] == made[1:4]
    each = pipeline()
    assert "sync_warp(T.uint32(4294967295))" == lines(Wait(each, ZERO, ZERO), Release(each, ZERO))[1], "each arrives"


@pytest.mark.parametrize(("only_mma_reads", "arrivals"), [(True, 2), (False, 8)])
def test_barriers_count_what_arrives_and_are_published_to_all_that_use_them(only_mma_reads, arrivals):
    each = pipeline(only_mma_reads=only_mma_reads)
    order = OrderBarrier("tiles", 2, 128, barriers("order", 2))
    expected = [
        "if thread == 0:",
        *("mbarrier_init(full[0:1], 1)", "mbarrier_init(full[1:2], 1)"),
        *(f"mbarrier_init(empty[0:1], {arrivals})", f"mbarrier_init(empty[1:2], {arrivals})"),
        *("mbarrier_init(order[0:1], 1)", "mbarrier_init(order[1:2], 1)"),
        *("fence_mbarrier_init()", "fence_proxy_async()", "sync_threads()"),
    ]
    assert expected == lines(InitPipelines((each,), (order, OrderBarrier("gemms", 3, 128))))


def test_blocks_that_fill_stages_together_arrive_at_the_barriers_of_all():
    each = pipeline(1, only_mma_reads=True, blocks=3)
    made = lines(InitPipelines((each,)), ReleaseTo(each, (RANK, RANK + 1, RANK + 2)), Release(each, ZERO))
    assert "mbarrier_init(empty, 6)" in made
    assert ["cluster_arrive_relaxed()", "cluster_wait()"] == made[5:7]
    assert ["if thread % 128 < 3:", "mbarrier_arrive_remote(empty, sender)"] == made[-2:]


def test_threads_of_a_warpgroup_have_a_number_each():
    chosen = lower_pipelines.select_by_thread((RANK, (RANK + 1) % 3, (RANK + 2) % 3), THREAD)
    assert [2, 0, 1] == [int(evaluate(chosen, {THREAD: 128 + lane, RANK: 2})) for lane in range(3)]


def test_turns_that_phases_count_are_at_the_barriers_of_their_groups():
    order = OrderBarrier("tiles", 2, 128, barriers("order", 2))
    assert ["mbarrier_wait(order[1:2], 0)"] == lines(OrderWait(order, 1, phase=ZERO))
    assert ["if thread % 128 == 0:", "mbarrier_arrive(order[0:1])"] == lines(OrderArrive(order, 1))


def test_stores_are_waited_for_by_the_copy_engine():
    assert ["tma_store_wait_read_0()", "tma_store_wait_0()"] == lines(StoreWait(True), StoreWait(False))


def test_other_turns_are_at_named_barriers():
    order = OrderBarrier("gemms", 3, 128)
    assert ["bar_sync(1 + thread // 128, 256)"] == lines(OrderWait(order))
    assert ["bar_arrive(T.if_then_else(thread >= 256, 1, 2 + thread // 128), 256)"] == lines(OrderArrive(order))
    assert ["bar_sync(1, 256)", "bar_arrive(1, 256)"] == lines(OrderWait(order, 0), OrderArrive(order, 2))
    alone = If(THREAD < 128, OrderWait(order, 0))
    assert ["if thread < 128:", "bar_sync(1, 256)"] == lines(alone)


def lowered(func, **options):
    made = lower_pipelines.PASS.run(warp_specialize(func, **options), None)
    verify(made)
    assert not any(isinstance(s, PipelineStmt) for s in walk(made.body))
    return launch_of(made)


def groups(launch):
    return [(s.group.first, s.group.count) for s in walk(launch.body) if isinstance(s, If) and s.group]


def test_one_thread_of_the_producer_is_elected_and_creates_each_cache_policy_once():
    launch = lowered(gemm_kernel(2048, 256, 256))
    shown = [line.strip() for line in to_text(launch).splitlines()]
    elected = shown.index("elected = elect(T.uint32(4294967295))")
    assert "if elected:  # one thread" == shown[elected + 1]
    policies = [line for line in shown if "= l2_policy" in line]
    assert policies == list(dict.fromkeys(policies))
    assert [line.split(" = ")[0] for line in policies] == shown_policies(shown)


def shown_policies(shown):
    """The policies that copies name, in the order of their first use."""
    uses = (line.split("cache_policy=")[1].split(",")[0].rstrip(")") for line in shown if "cache_policy=" in line)
    return list(dict.fromkeys(uses))


def test_registers_move_from_a_producer_of_whole_warpgroups_of_which_one_warp_works():
    launch = lowered(gemm_kernel(512, 384, 512, 256, 192))
    shown = [line.strip() for line in to_text(launch).splitlines()]
    assert "set_max_registers_dec_24()" == shown[shown.index("if thread >= 256 and thread < 384:  # 128 threads together") + 1]
    assert "set_max_registers_inc_240()" == shown[shown.index("if thread >= 0 and thread < 256:  # 256 threads together") + 1]
    assert [(256, 128), (256, 32), (256, 1), (0, 256)] == groups(launch)


def test_blocks_of_a_cluster_synchronize_at_their_beginning_and_end():
    alone = to_text(lowered(gemm_kernel(256, 256, 256), persistent=False))
    assert "cluster" not in alone and 1 == alone.count("sync_threads()")
    shown = [line.strip() for line in to_text(lowered(gemm_kernel(256, 256, 256, cluster=2), stages=2)).splitlines()]
    meetings = [n for n, line in enumerate(shown) if line == "cluster_arrive_relaxed()"]
    assert ["cluster_wait()"] * 2 == [shown[n + 1] for n in meetings]
    assert "sync_threads()" not in shown
    assert "fence_proxy_async()" == shown[meetings[0] - 1] and len(shown) == meetings[1] + 2


def test_blocks_without_remote_arrivals_do_not_synchronize_the_cluster():
    once = to_text(lowered(gemm_kernel(256, 256, 128, cluster=2), stages=2))  # no version is loaded twice
    assert 1 == once.count("cluster_wait()") and "mbarrier_arrive_remote" not in once
    apart = to_text(lowered(gemm_kernel(512, 256, 128, bm=64, bk=32, cluster=(1, 8)), stages=2))
    assert "cluster_wait()" not in apart and "# cluster (1, 8, 1)" in apart


def test_launches_without_partitions_stay():
    func = gemm_kernel(256, 256, 256)
    assert func is lower_pipelines.PASS.run(func, None)
