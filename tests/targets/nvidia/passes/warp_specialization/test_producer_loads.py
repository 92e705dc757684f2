"""What a producer loads for a loop, with the statements that read it, and the names of the partitions that run it."""

import dataclasses

import pytest
from specialized import TABLE, TARGET, context, gemm_kernel, launch_of

from tilelang.ir.stmt import For
from tilelang.ir.visit import walk
from tilelang.schedule.consumer_loops import consumer_body
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.producer_loads import partition_names, producer_loads
from tilelang.targets.nvidia.schedule import Schedule

FUNC = gemm_kernel(512, 512, 512, 128, 64)
LAUNCH = flatten_sequences(launch_of(FUNC))
GROUPS = target_capabilities(FUNC, TABLE, context()).load_groups(LAUNCH).found
(LOOP,) = (stmt for stmt in walk(LAUNCH.body) if isinstance(stmt, For))


def test_every_load_of_a_loop_has_its_readers_and_the_cycles_of_its_bytes():
    loads = producer_loads(consumer_body(LOOP, GROUPS), GROUPS, Schedule(2, 4), TARGET.machine)
    (first, second) = (copy.loc.line for group in GROUPS for copy in group.copies)
    assert [f"line {first}", f"line {second}"] == [load.label for load in loads]
    assert [(frozenset({0}), 4)] * 2 == [(load.readers, load.versions) for load in loads]
    wide, narrow = (load.cycles for load in loads)
    assert wide == pytest.approx(2 * narrow, abs=1) and wide < min(load.latency for load in loads)


def test_a_machine_without_rates_has_no_figures_to_show():
    unknown = dataclasses.replace(TARGET.machine, rates=None)
    assert () == producer_loads(consumer_body(LOOP, GROUPS), GROUPS, Schedule(2, 4), unknown)


def test_consumers_that_share_a_tile_have_one_name():
    assert ("consumer",) == partition_names(Schedule(1, 4))
    assert ("consumers 1-3",) == partition_names(Schedule(3, 4))
    assert ("consumer 1", "consumer 2") == partition_names(Schedule(2, 4, ping_pong=True))
