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
from tilelang.ir.stmt import Bind, Group, If, Seq
from tilelang.schedule.load_groups import find_load_groups, flatten_sequences
from tilelang.schedule.multicast import ClusterBlocks
from tilelang.schedule.pipeline_buffers import PartitionStates, pipeline_buffers

ZERO = const(0, INT32)
ALONE = ClusterBlocks((1, 1, 1), (ZERO, ZERO, ZERO))


def only_ring(trip_count=6):
    (load_group,) = find_load_groups(flatten_sequences(launch_of(gemm_kernel(128, 128, 64 * trip_count))), lambda copy: "").found
    return load_group


def buffer_of(load_group, stages, *, cluster=ALONE, multicast=()):
    partitions = Group(256, 32), Group(0, 256)
    (made,) = pipeline_buffers(
        [load_group], stages, partitions, 256, only_mma_reads=True, multicast=dict(multicast), cluster=cluster
    )
    return made


def text(*statements):
    return to_text(Seq(statements)).strip().splitlines()


def test_a_pipeline_with_a_stage_for_each_fill_is_not_released():
    made = buffer_of(only_ring(), 8)
    assert made.pipeline.empty is None
    assert 6 == made.versions
    state = PartitionStates([made]).state(made)
    assert [] == made.release(state.index)
    assert ["pipeline A_s: acquire(k, 0)", "pipeline A_s: commit(k)"] == text(made.acquire(state), made.commit(state))
    assert ["pipeline A_s: wait(k, 0)"] == text(made.wait(state))


def test_a_group_that_is_never_filled_has_one_stage():
    made = buffer_of(only_ring(0), 4)
    assert (1, None) == (made.versions, made.pipeline.empty)


def test_a_pipeline_states_what_fills_and_what_reads_it():
    made = buffer_of(only_ring(), 4)
    shown = "4 stages of A_s, B_s; threads 256 to 287 copy 32768 bytes; threads 0 to 255 read by matrix units only"
    assert shown == str(made.pipeline)
    assert ["A_s_full", "A_s_empty"] == [made.pipeline.full.name, made.pipeline.empty.name]
    assert ["pipeline A_s: release(0)"] == text(*made.release(ZERO))


@given(st.integers(1, 5))
def test_versions_follow_each_other_and_phases_flip_after_the_last(versions):
    load_group = only_ring(11)
    made = buffer_of(load_group, versions)
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
    made = buffer_of(load_group, 4)
    for waits, names in ((True, ["version", "phase"]), (False, ["version"])):
        states = PartitionStates([made], waits=waits)
        state = states.state(made)
        assert (names if counted else []) == [alloc.buffer.name for alloc in states.counters]
        assert names == [bind.var.name for bind in state.setup]
        assert (len(names) if counted else 0) == len(state.advance)


def test_one_version_is_the_tile_itself():
    load_group = only_ring()
    made = buffer_of(load_group, 1)
    assert {tile: tile for tile in load_group.tiles} == made.tiles


def test_consumers_release_to_all_blocks_that_load_for_them():
    rank = Var("rank", INT32)
    load_group = only_ring()
    made = buffer_of(
        load_group, 3, cluster=ClusterBlocks((4, 1, 1), (rank, ZERO, ZERO)), multicast=((load_group.tiles[0], (0,)),)
    )
    assert [0, 1, 2, 3] == sorted(int(evaluate(e, {rank: 2})) for e in made.senders)
    assert 4 == made.pipeline.blocks
    assert made.signals_cluster
    alone = buffer_of(load_group, 3)
    assert not alone.signals_cluster and 1 == alone.pipeline.blocks


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
    made = buffer_of(load_group, versions)
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


def several_loads():
    """A tile that is loaded in front of a loop and in two, around which another one turns."""

    @T.prim_func
    def main(A: T.Tensor((512, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            for turn in T.serial(3):
                T.copy(A[0, 0], A_s)
                T.gemm(A_s, A_s, C_l)
                for k in T.Pipelined(turn, num_stages=2):
                    T.copy(A[k * 64, 0], A_s)
                    T.gemm(A_s, A_s, C_l)
                for k in T.Pipelined(2, 4, num_stages=2):
                    T.copy(A[k * 64, 0], A_s)
                    T.gemm(A_s, A_s, C_l)
            T.copy(C_l, C)

    return main


@given(st.integers(1, 4))
def test_groups_that_fill_a_tile_in_turn_count_on_in_one_pipeline(versions):
    found = find_load_groups(flatten_sequences(launch_of(several_loads())), lambda copy: "").found
    partitions = Group(256, 32), Group(0, 256)
    made = pipeline_buffers(found, versions, partitions, 256, only_mma_reads=True, multicast={}, cluster=ALONE)
    assert 1 == len({each.pipeline for each in made}) and list(found) == [each.load_group for each in made]
    states = PartitionStates(made)
    (counter,) = states.counters
    fills = uses = 0

    def now(*_):
        return fills

    (outer,) = found[0].path
    for turn in range(3):
        for each, trips in zip(made, (1, turn, 2), strict=True):
            loop = each.load_group.fills_each_iteration_of()
            for step in range(trips):
                env, state = {outer.var: turn}, states.state(each)
                if loop is not None:
                    env[loop.var] = evaluate(loop.start, env) + step
                for bind in state.setup:
                    env[bind.var] = evaluate(bind.value, env, load=now)
                assert (uses % versions, uses // versions % 2) == (evaluate(state.index, env), evaluate(state.phase, env))
                uses += 1
                for store in state.advance:
                    assert store.buffer is counter.buffer and loop is None
                    fills = evaluate(store.value, env, load=now)
            for store in [] if loop is None else states.after_loop(loop):
                fills = evaluate(store.value, {outer.var: turn}, load=now)
            assert uses == fills
