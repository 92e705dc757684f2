"""Tiles that are left behind whole waves are shared by several blocks; every tile is computed by one launch."""

import math

import numpy as np
import pytest
from harness import run_reference_on_copies
from specialized import TARGET, context, gemm_kernel
from split_k_gemm import TWO_TIMINGS, draw

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.expr import int_const
from tilelang.ir.func import Level
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.passes.base import Pass
from tilelang.passes.runner import run_passes
from tilelang.saved_schedule import schedule_text
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.backend import BACKEND, LOWERINGS
from tilelang.targets.nvidia.passes import persist_grid
from tilelang.targets.nvidia.passes.workspace_split_k import split_reductions

AT_ONCE = 4  # blocks of the machine, instead of 132


def launches(func):
    return [stmt for stmt in walk(func.body) if isinstance(stmt, Launch)]


def lowered(func, **pass_configs):
    few = {
        "workspace_split_k": lambda f, context: split_reductions(f, LOWERINGS, context, AT_ONCE),
        "persist_grid": lambda f, _: persist_grid.persist(f, AT_ONCE),
    }
    passes = [Pass(p.name, few[p.name], Level.TILE, Level.TILE) if p.name in few else p for p in BACKEND.passes]
    return run_passes(func, passes, context(**pass_configs))


def products(grid, steps=4, depth=32):
    """Two products per tile, and the sum of all tiles of a row of the grid."""
    along, others = grid

    @T.prim_func
    def main(
        A: T.Tensor((others, along * 64, steps * depth), "float16"),
        B: T.Tensor((others, steps * depth, 64), "float16"),
        D: T.Tensor((others, steps * depth, 64), "float16"),
        C: T.Tensor((others, along * 64, 64), "float16"),
        E: T.Tensor((others, along * 64, 64), "float32"),
        total: T.Tensor((others, 64, 64), "float32"),
    ):
        with T.Kernel(along, others, threads=128) as (bx, by):
            A_s = T.alloc_shared((64, depth), "float16")
            B_s, D_s = T.alloc_shared((depth, 64), "float16"), T.alloc_shared((depth, 64), "float16")
            C_l, E_l = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            step = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            T.clear(E_l)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(A[by, bx * 64, k * depth], A_s)
                T.copy(B[by, k * depth, 0], B_s)
                T.copy(D[by, k * depth, 0], D_s)
                T.gemm(A_s, B_s, C_l)
                T.gemm(A_s, D_s, E_l)
                T.gemm(A_s, B_s, step, clear_accum=True)
                T.atomic_add(total[by, 0, 0], step)
            T.copy(C_l, C[by, bx * 64, 0])
            T.copy(E_l, E[by, bx * 64, 0])

    return main


def arguments(grid, steps=4, depth=32):
    along, others = grid
    operands = [draw((others, along * 64, steps * depth)), *(draw((others, steps * depth, 64), seed=n) for n in (1, 2))]
    results = [np.full((others, along * 64, 64), np.nan, dtype) for dtype in ("float16", "float32")]
    return [*operands, *results, np.zeros((others, 64, 64), "float32")]


@pytest.mark.slow(every=3)  # a grid with and one without persistent blocks
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(("grid", "parts"), [((3, 2), 2), ((9, 1), 2)])
def test_every_tile_and_every_step_is_computed_once(grid, parts, persistent):
    given = arguments(grid)
    want = run_reference_on_copies(products(grid), given)
    made = lowered(products(grid), last_wave=parts, persistent=persistent)
    waves, filling, adding = launches(made)
    assert math.prod(grid) // AT_ONCE * AT_ONCE - 1 == waves.plan.tiles
    assert (parts, parts) == (waves.plan.last_wave, filling.plan.workspace_split)
    for lazy, seed in TWO_TIMINGS:
        actual = [np.array(a) for a in given]
        simulate(made, actual, target=TARGET, lazy=lazy, seed=seed)
        for expected, found in zip(want, actual, strict=True):
            np.testing.assert_array_equal(expected.astype(np.float64), found.astype(np.float64))


def test_a_launch_has_the_whole_waves_and_blocks_share_the_rest():
    made = lowered(products((9, 1)), last_wave=2, persistent=True)
    assert [[4], [4], [2, 4]] == [[int_const(extent) for extent in each.grid] for each in launches(made)]


def test_a_saved_schedule_splits_again():
    first = launches(lowered(products((3, 2)), last_wave=2))
    saved = schedule_text([launch.plan.overrides for launch in first])
    again = launches(lowered(products((3, 2)), schedule=saved))
    assert saved == schedule_text([launch.plan.overrides for launch in again])


def reason(func, **pass_configs):
    (waves,) = launches(lowered(func, last_wave=2, **pass_configs))
    (note,) = (note.text for note in waves.plan.notes if note.text.startswith("tl.last_wave"))
    return note.removeprefix("tl.last_wave: blocks do not share sums, since ")


def refusal(func, **pass_configs):
    with pytest.raises(ProgramError) as caught:
        lowered(func, last_wave=2, **pass_configs)
    assert "'tl.last_wave': 1 fits" == caught.value.hint
    return caught.value.message.removeprefix("pass_configs: 'tl.last_wave' cannot be 2: ")


def test_what_has_no_last_wave_is_told():
    assert "4 tiles are no whole waves of 4 and some more" == reason(products((2, 2)))
    assert "3 tiles are no whole waves of 4 and some more" == reason(products((3, 1)))


def test_a_last_wave_that_cannot_be_divided_is_refused():
    in_panels = gemm_kernel(64 * 5, 64 * 5, 128, 64, 64, 32)
    assert "single blocks do not compute the tiles row by row" == refusal(in_panels)
    assert "single blocks do not compute the tiles row by row" == refusal(products((5, 1)), split=2)
    assert "only the call knows how many tiles there are" == refusal(gemm_kernel(T.dynamic("m"), 64, 128, 64, 64, 32))
    assert "'tl.workspace_split' lets blocks share all tiles" == refusal(products((3, 2)), workspace_split=2)
    assert 3 == len(launches(lowered(products((3, 2)), last_wave=2, workspace_split=1)))
