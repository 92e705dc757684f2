"""The graph of a loop that is one gemm: who shares it, what may be in flight, what loads wait for."""

import dataclasses

from specialized import TABLE, context, gemm_kernel, launch_of

import tilelang.language as T
from tilelang.ir.stmt import For
from tilelang.ir.visit import walk
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.schedule.modulo import modulo_schedule
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.gemm_graph import gemm_graph
from tilelang.targets.nvidia.schedule import Schedule


def graph(func, stages, in_flight=None, **fields):
    """The graph of the only loop of a launch."""
    launch, capabilities = flatten_sequences(launch_of(func)), target_capabilities(func, TABLE, context())
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For))
    groups = capabilities.load_groups(launch).found
    return gemm_graph(loop, launch, groups, capabilities, Schedule(stages=stages, **fields), in_flight)


def test_warpgroups_that_share_a_gemm_wait_for_their_parts_of_it():
    made = graph(gemm_kernel(128, 256, 512, 128, 256), 3, consumers=2)
    assert (2, 3, (0, 1), 1024) == (made.groups, made.stages, made.in_flight, made.unit_cycles)
    assert 1024 == modulo_schedule(made).cycles  # while one waits, the other one computes
    alone = graph(gemm_kernel(128, 256, 512, 128, 256), 4, consumers=1)
    assert (1024, 1) == (modulo_schedule(alone).cycles, modulo_schedule(alone).in_flight)
    assert 1024 + 195 == modulo_schedule(dataclasses.replace(alone, in_flight=(0,))).cycles


def test_what_may_be_in_flight():
    func = gemm_kernel(128, 128, 512)
    assert (1,) == graph(func, 3, 1, consumers=1).in_flight
    assert (0,) == graph(func, 3, 0, consumers=1).in_flight
    assert (0,) == graph(func, 1, 1, consumers=1).in_flight  # a stage is read and filled
    once = gemm_kernel(128, 128, 64)
    assert (0,) == graph(once, 3, 1, consumers=1).in_flight
    assert (1,) == graph(once, 3, 1, consumers=1, persistent=True).in_flight  # with the gemm of the tile before


def test_loads_wait_for_stages_unless_all_iterations_have_one():
    func = gemm_kernel(128, 128, 256)
    assert (3, 0) == (graph(func, 3, consumers=1).stages, graph(func, 4, consumers=1).stages)
    assert 4 == graph(func, 4, consumers=1, persistent=True).stages


def test_a_loop_that_may_have_no_iteration_has_no_such_graph():
    assert graph(gemm_kernel(128, 128, T.dynamic("n") * 64), 3, consumers=1) is None
