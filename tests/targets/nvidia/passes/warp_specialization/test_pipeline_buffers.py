"""Both partitions have the same index and phase for a fill, whether they compute or count them."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specialized import gemm_kernel, launch_of

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind, If, Seq
from tilelang.schedule.load_groups import find_load_groups, flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.multicast import ClusterBlocks
from tilelang.targets.nvidia.passes.warp_specialization.pipeline_buffers import (
    PartitionStates,
    consumer_release,
    consumer_wait,
    pipeline_buffer,
    producer_acquire,
)
from tilelang.targets.nvidia.schedule import Schedule

ZERO = const(0, INT32)
ALONE = ClusterBlocks((1, 1, 1), (ZERO, ZERO, ZERO))


def only_ring(trip_count=6):
    (load_group,) = find_load_groups(flatten_sequences(launch_of(gemm_kernel(128, 128, 64 * trip_count))), lambda copy: "").found
    return load_group


def text(statements):
    return to_text(Seq(tuple(statements))).strip().splitlines()


def test_a_buffer_with_a_stage_for_each_fill_has_no_empty_barrier():
    made = pipeline_buffer(only_ring(), Schedule(2, 8), ALONE, wgmma_only=True)
    assert made.empty is None
    assert 6 == made.versions
    state = PartitionStates([made]).state(made)
    assert [] == consumer_release(made, state.index, Var("thread", INT32, index=True))
    assert ["mbarrier_arrive_expect_tx(A_s_full[k:k + 1], 32768)"] == text(producer_acquire(made, state))
    assert ["mbarrier_wait(A_s_full[k:k + 1], 0)"] == text(consumer_wait(made, state))


def test_a_group_that_is_never_filled_has_one_stage():
    made = pipeline_buffer(only_ring(0), Schedule(2, 4), ALONE, wgmma_only=True)
    assert (1, None) == (made.versions, made.empty)


def test_consumers_arrive_as_warpgroups_or_as_warps():
    schedule, thread = Schedule(2, 4), Var("thread", INT32, index=True)
    together, alone = (pipeline_buffer(only_ring(), schedule, ALONE, wgmma_only=by) for by in (True, False))
    counts = [line for line in text(together.barrier_inits(schedule)) if "empty" in line]
    assert ["mbarrier_init(A_s_empty[0:1], 2)", 4] == [counts[0], len(counts)]
    assert "mbarrier_init(A_s_empty[3:4], 8)" in text(alone.barrier_inits(schedule))
    zero = const(0, INT32)
    assert "if thread % 128 == 0:" == text(consumer_release(together, zero, thread))[0]
    lines = [line.strip() for line in text(consumer_release(alone, zero, thread))]
    assert ["sync_warp(T.uint32(4294967295))", "if thread % 32 == 0:", "mbarrier_arrive(A_s_empty[0:1])"] == lines


@given(st.integers(1, 5))
def test_versions_follow_each_other_and_phases_flip_after_the_last(versions):
    load_group = only_ring(11)
    made = pipeline_buffer(load_group, Schedule(2, versions), ALONE, wgmma_only=True)
    state = PartitionStates([made]).state(made)
    for use in range(11):
        env = {load_group.loop.var: use}
        for bind in state.setup:
            assert isinstance(bind, Bind)
            env[bind.var] = evaluate(bind.value, env)
        assert (use % versions, use // versions % 2) == (evaluate(state.index, env), evaluate(state.phase, env))


@pytest.mark.parametrize("counted", [False, True])
def test_states_by_which_nobody_waits_have_no_phase(counted):
    load_group = only_ring(11)
    if counted:
        branch = If(load_group.loop.var > 2, load_group.parent)
        load_group = dataclasses.replace(load_group, path=(*load_group.path, branch))
    made = pipeline_buffer(load_group, Schedule(2, 4), ALONE, wgmma_only=True)
    for waits, names in ((True, ["version", "phase"]), (False, ["version"])):
        states = PartitionStates([made], waits=waits)
        state = states.state(made)
        assert (names if counted else []) == [alloc.buffer.name for alloc in states.counters]
        assert names == [bind.var.name for bind in state.setup]
        assert (len(names) if counted else 0) == len(state.advance)


def test_one_version_is_the_tile_itself():
    load_group = only_ring()
    made = pipeline_buffer(load_group, Schedule(2, 1), ALONE, wgmma_only=True)
    assert {tile: tile for tile in load_group.tiles} == made.tiles


def test_consumers_arrive_at_the_barriers_of_all_blocks_that_load_for_them():
    rank = Var("rank", INT32)
    load_group = only_ring()
    schedule = Schedule(2, 3, cluster=(4, 1, 1), multicast=((load_group.tiles[0], (0,)),))
    made = pipeline_buffer(load_group, schedule, ClusterBlocks((4, 1, 1), (rank, ZERO, ZERO)), wgmma_only=True)
    barrier_inits = to_text(Seq(tuple(made.barrier_inits(schedule))))
    assert 3 == barrier_inits.count("1)") and 3 == barrier_inits.count(", 8)")
    assert [0, 1, 2, 3] == sorted(int(evaluate(e, {rank: 2})) for e in made.senders)
    text = to_text(Seq(tuple(consumer_release(made, ZERO, Var("thread", INT32)))))
    assert "if thread % 128 < 4:" in text and "mbarrier_arrive_remote(A_s_empty[0:1], sender)" in text
    assert made.signals_cluster
    assert not pipeline_buffer(load_group, Schedule(2, 3), ALONE, wgmma_only=True).signals_cluster


def uneven_loops():
    """A gemm that each iteration of an outer loop repeats another number of times, none at first."""

    @T.prim_func
    def main(A: T.Tensor((512, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for row in T.serial(6):
                for k in T.Pipelined(1, row, num_stages=2):
                    T.copy(A[k * 64, 0], A_s)
                    T.gemm(A_s, A_s, C_l, transpose_B=True)
            T.copy(C_l, C)

    return main


@given(st.integers(1, 5))
def test_fills_before_a_loop_are_counted_behind_it_where_trip_counts_differ(versions):
    (load_group,) = find_load_groups(flatten_sequences(launch_of(uneven_loops())), lambda copy: "").found
    made = pipeline_buffer(load_group, Schedule(2, versions), ALONE, wgmma_only=True)
    states, (outer, loop) = PartitionStates([made]), load_group.path
    assert ["fills"] == [alloc.buffer.name for alloc in states.counters]
    assert [] == states.after_loop(outer)
    assert [] == PartitionStates([made], waits=False, among=states).counters  # it reads the same
    uses = fills = 0
    for row in range(6):
        for k in range(1, row):
            env, state = {outer.var: row, loop.var: k}, states.state(made)
            for bind in state.setup:
                env[bind.var] = evaluate(bind.value, env, load=lambda *_, now=fills: now)
            assert (uses % versions, uses // versions % 2) == (evaluate(state.index, env), evaluate(state.phase, env))
            assert () == state.advance
            uses += 1
        (count,) = states.after_loop(loop)
        fills = evaluate(count.value, {outer.var: row}, load=lambda *_, now=fills: now)
        assert uses == fills
