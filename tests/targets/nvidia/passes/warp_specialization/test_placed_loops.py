"""Loops that users place have a producer for their loads, and consumers that keep the rest of the placement."""

import numpy as np
import pytest
from specialized import launch_of, warp_specialize

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import For
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.passes.tile import check_program, inline_bindings
from tilelang.saved_schedule import Placement
from tilelang.schedule.load_groups import pipelined_loops
from tilelang.schedule.loop_body import LoopBody
from tilelang.targets.nvidia.backend import LOWERINGS
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.warp_specialization.placed_loops import with_free_loops
from tilelang.targets.nvidia.schedule import schedule_of

N = 4


def kernel(order, stage, stages=2, through="registers", rows=64):
    """Two gemms, of which the second one multiplies what is made of the first one's results."""

    @T.prim_func
    def main(
        Q: T.Tensor((64, 64), "float16"), K: T.Tensor((N * rows, 64), "float16"), V: T.Tensor((N * rows, 64), "float16"),
        O: T.Tensor((64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            Q_s = T.alloc_shared((64, 64), "float16")
            K_s = T.alloc_shared((rows, 64), "float16")
            V_s = T.alloc_shared((rows, 64), "float16")
            S = T.alloc_fragment((64, rows), "float32")
            P = T.alloc_fragment((64, rows), "float16")
            P_s = T.alloc_shared((64, rows), "float16")
            out = T.alloc_fragment((64, 64), "float32")
            T.copy(Q, Q_s)
            T.clear(out)
            for k in T.Pipelined(N, num_stages=stages, order=order, stage=stage):
                T.copy(K[k * rows, 0], K_s)
                T.clear(S)
                T.gemm(Q_s, K_s, S, transpose_B=True)
                for i, j in T.Parallel(64, rows):
                    S[i, j] = T.min(S[i, j], 3)
                T.copy(V[k * rows, 0], V_s)
                if through == "registers":
                    T.copy(S, P)
                    T.gemm(P, V_s, out)
                else:
                    T.copy(S, P_s)
                    T.gemm(P_s, V_s, out)
            T.copy(out, O)

    return main


AHEAD = [0, 1, 2, 3, 4, 5, 6], [0, 1, 1, 1, 0, 1, 1]  # loads alone
BEHIND = [0, 1, 2, 4, 5, 6, 3], [0, 1, 1, 1, 0, 1, 2]  # the last gemm beside the first one of the next iteration
SWAPPED = [0, 2, 3, 4, 1, 5, 6], [0, 0, 0, 0, 0, 0, 0]  # loads first, in one stage


def placed(order, stage, **options):
    launch = launch_of(kernel(order, stage, **options))
    return with_free_loops(launch)


def test_stages_are_left_to_the_compiler():
    (loop,) = pipelined_loops(placed(*BEHIND)[0])
    assert (2, None, None) == (loop.pipeline.num_stages, loop.pipeline.order, loop.pipeline.stage)
    (loop,) = pipelined_loops(placed(*BEHIND, stages=0)[0])
    assert 3 == loop.pipeline.num_stages  # as many as the placement has


@pytest.mark.parametrize("placement", [AHEAD, SWAPPED, ([0, 1, 2, 3, 4, 5, -1], [-1, 0, 0, 0, 0, 0, 1])])
def test_what_says_nothing_of_consumers_is_no_placement_of_theirs(placement):
    assert {} == placed(*placement)[1]


def test_consumers_keep_the_placement_of_what_is_no_load():
    launch, found = placed(*BEHIND)
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.var in found)
    _, clear, first, least, _, copy, last = found[loop.var].statements
    body = LoopBody(loop)
    body.statements = [clear, first, least, copy, last]
    assert Placement((0, 0, 0, 0, 1), (0, 1, 3, 4, 2)) == found[loop.var].of_consumers(body)
    body.statements = [first, least, copy, last]  # the gemm clears its results
    assert Placement((0, 0, 0, 1), (0, 2, 3, 1)) == found[loop.var].of_consumers(body)
    body.statements = [first, copy, least, last]
    assert found[loop.var].of_consumers(body) is None


def test_a_loop_that_the_user_places_is_specialized():
    made = schedule_of(launch_of(warp_specialize(kernel(*BEHIND))))
    ((_, loop),) = made.loops
    assert ((0, 0, 0, 1), (0, 3, 1, 2)) == (loop.stage, loop.order)  # the first gemm clears its results


def test_no_operand_is_held_in_registers_by_further_statements():
    def held(*placement):
        passes = (check_program.PASS, inline_bindings.PASS, choose_schedule(LOWERINGS))
        launch = launch_of(warp_specialize(kernel(*placement, rows=32), passes=passes))
        assert schedule_of(launch) is not None
        return [s for s in walk(launch) if isinstance(s, Gemm) and "held" in s.a.buffer.name]

    assert held(*AHEAD) and not held(*BEHIND)


def test_what_consumers_cannot_keep_is_left_to_the_threads_of_the_loop_with_a_note():
    launch = launch_of(warp_specialize(kernel([0, 1, 2, 3, 4, 5, 6], [0, 1, 1, 1, 0, 2, 3])))
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
        made = tilelang.compile(kernel(*placement, through=through), target=target, execution_backend=backend)
        results.append(np.zeros((64, 64), np.float32))
        made(Q, K, V, results[-1])
    np.testing.assert_array_equal(*results)
