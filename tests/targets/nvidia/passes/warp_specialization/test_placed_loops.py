"""Loops that users place have a producer for their loads, and consumers that keep the rest of the placement."""

import attention_programs
import numpy as np
import pytest
from placed_gemms import AHEAD, BEHIND, SWAPPED, N, placed_gemms
from specialized import launch_of, warp_specialize

import tilelang
from tilelang.ir.stmt import For
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.passes.tile import check_program, inline_bindings
from tilelang.schedule.load_groups import pipelined_loops
from tilelang.targets.nvidia.backend import LOWERINGS
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.warp_specialization.placed_loops import with_free_loops
from tilelang.targets.nvidia.schedule import schedule_of


def placed(order, stage, **options):
    launch = launch_of(placed_gemms(order, stage, **options))
    return with_free_loops(launch)


def test_stages_are_left_to_the_compiler():
    (loop,) = pipelined_loops(placed(*BEHIND)[0])
    assert (2, None, None) == (loop.pipeline.num_stages, loop.pipeline.order, loop.pipeline.stage)
    (loop,) = pipelined_loops(placed(*BEHIND, stages=0)[0])
    assert 3 == loop.pipeline.num_stages  # as many as the placement has


@pytest.mark.parametrize("placement", [AHEAD, SWAPPED, ([0, 1, 2, 3, 4, 5, -1], [-1, 0, 0, 0, 0, 0, 1])])
def test_what_says_nothing_of_consumers_is_no_placement_of_theirs(placement):
    assert {} == placed(*placement)[1]


def test_consumers_keep_the_stages_and_runs_of_what_is_no_load():
    launch, found = placed(*BEHIND)
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.var in found)
    _, clear, first, least, _, copy, last = found[loop.var].statements
    places_of = found[loop.var].places_of
    assert [(0, 0), (0, 0), (0, 2), (0, 2), (1, 1)] == places_of([clear, first, least, copy, last])
    assert [(0, 0), (0, 2), (0, 2), (1, 1)] == places_of([first, least, copy, last])  # the gemm clears its results
    assert [(0, 0), (0, 0), (0, 2), (1, 1), (1, 1)] == places_of([first, first, copy, last, last])  # parts of gemms
    assert places_of([copy, first]) is None


def test_a_loop_that_the_user_places_is_specialized():
    made = schedule_of(launch_of(warp_specialize(placed_gemms(*BEHIND))))
    ((_, loop),) = made.loops
    assert ((0, 0, 0, 1), (0, 3, 1, 2)) == (loop.stage, loop.order)  # the first gemm clears its results


def test_operands_are_held_in_registers_as_without_a_placement():
    def held(*placement):
        passes = (check_program.PASS, inline_bindings.PASS, choose_schedule(LOWERINGS))
        launch = launch_of(warp_specialize(placed_gemms(*placement, rows=32), passes=passes))
        assert schedule_of(launch) is not None
        return [s for s in walk(launch) if isinstance(s, Gemm) and "held" in s.a.buffer.name]

    assert len(held()) == len(held(*AHEAD)) == len(held(*BEHIND)) == 1


def test_what_consumers_cannot_keep_is_left_to_the_threads_of_the_loop_with_a_note():
    launch = launch_of(warp_specialize(placed_gemms([0, 1, 2, 3, 4, 5, 6], [0, 1, 1, 1, 0, 2, 3])))
    assert schedule_of(launch) is None
    (note,) = launch.plan.notes
    assert note.text.startswith("not specialized: consumers cannot keep `order` and `stage` of T.Pipelined: ")
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.pipeline is not None)
    assert loop.pipeline.places_statements


@pytest.mark.parametrize("through", ["registers", "shared memory"])
@pytest.mark.parametrize("placement", [AHEAD, BEHIND, SWAPPED])
def test_the_loop_computes_the_same(placement, through):
    rng = np.random.default_rng(3)
    Q, K, V = (rng.integers(-2, 3, (rows, 64)).astype(np.float16) for rows in (64, N * 64, N * 64))
    results = []
    for backend, target in (("reference", "cpu"), ("simulator", {"kind": "cuda", "arch": "sm_90a"})):
        made = tilelang.compile(placed_gemms(*placement, through=through), target=target, execution_backend=backend)
        results.append(np.zeros((64, 64), np.float32))
        made(Q, K, V, results[-1])
    np.testing.assert_array_equal(*results)


# -- attention ---------------------------------------------------------------------------------------------------
# K, clear, gemm, V, 7 statements of a softmax up to the conversion, the rescaling, gemm
LOADS = [*range(13)], [0, 1, 1, 0, *[1] * 9]
LAST_GEMM = [0, 1, 2, 3, *range(5, 13), 4], [0] * 12 + [1]
RESCALING = [0, 1, 2, 3, *range(6, 13), 4, 5], [0] * 11 + [1, 1]
AMIDST = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 7], [0] * 12 + [1]  # the last gemm behind the search


def attention(places, **configs):
    func = attention_programs.flash(1, 200, 64, 128, 64, threads=256, places=places)
    return tilelang.compile(func, target="sm_90a", execution_backend="simulator", pass_configs=configs)


@pytest.mark.parametrize("places", [LOADS, LAST_GEMM])
@pytest.mark.parametrize("fast", [False, True])
def test_attention_placed_as_the_compiler_does_is_the_same_kernel(places, fast):
    configs = {"tl.enable_fast_math": fast}
    assert attention((None, None), **configs).get_kernel_source() == attention(places, **configs).get_kernel_source()


def test_three_warpgroups_speculate_where_the_user_places_the_whole_step_in_one_run():
    def is_speculative(places):
        func = attention_programs.flash(2, 256, 128, 192, 64, threads=384, places=places)
        configs = {"tl.enable_fast_math": True}
        kernel = tilelang.compile(func, target="sm_90a", execution_backend="simulator", pass_configs=configs)
        return "looks for the largest scores only in" in kernel.explain()

    assert is_speculative(LAST_GEMM) and not is_speculative(RESCALING)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("places", [LOADS, LAST_GEMM, RESCALING, AMIDST])
@pytest.mark.parametrize("fast", [False, True])
def test_attention_computes_the_same_wherever_its_statements_are(places, fast):
    kernel = attention(places, **{"tl.enable_fast_math": fast})
    assert "a producer of" in kernel.explain()
    assert fast == ("the softmax is computed as by T.online_softmax" in kernel.explain())
    rng = np.random.default_rng(7)
    q, k, v = (2 * rng.standard_normal((1, 200, 64)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, np.nan)
    kernel(q, k, v, out)
    np.testing.assert_allclose(out, attention_programs.attention(q, k, v, False), atol=2e-2)
