"""Two warpgroups alternate among tiles of which only run time tells how many steps they take, or that there are none."""

import functools
import itertools

import numpy as np
import pytest
from counted_tiles import counted_tiles, operands_and_tiles
from programs_with_faults import example
from specialized import TARGET, launch_of, lowered

from tilelang.sim.run import simulate

STEPS = {
    "all": (2, 3, 1, 8, 5, 4, 7),
    "none": (0, 0, 0, 0),
    "one": (0, 0, 0, 4, 0, 0, 0),
    "the first": (5, 0, 0, 0),
    "the last": (0, 0, 0, 0, 0, 0, 2),
    "of one parity": (3, 0, 4, 0, 5, 0, 2),
    "runs of one step": (1, 1, 0, 0, 0, 6, 1),
}


@functools.cache
def alternating(tiles, otherwise):
    return lowered(counted_tiles(tiles, otherwise=otherwise), blocks=1, persistent=True, ping_pong=True)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize(("otherwise", "lazy", "seed"), [(False, True, 0), (True, False, 1)])
def test_tiles_of_any_number_of_steps(steps, otherwise, lazy, seed):
    made = alternating(len(steps), otherwise)
    assert launch_of(made).plan.schedule.ping_pong
    arguments, want = operands_and_tiles(steps, 0.0 if otherwise else np.nan)
    got = np.full_like(want, np.nan)
    simulate(made, [*arguments, got], target=TARGET, lazy=lazy, seed=seed)
    np.testing.assert_array_equal(want, got)


@functools.cache
def grouped(groups, total, n, k, cluster):
    func = example("02_gemm/grouped_gemm.py").grouped.get_tir(groups, total, n, k, 128, 64, 64)
    return lowered(func, persistent=True, ping_pong=True, cluster=cluster)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("sizes", [(64, 0, 65, 1, 200), (0, 0, 0, 0, 330), (1, 1, 328, 0, 0)], ids=str)
def test_rows_of_groups_of_any_size(sizes, cluster):
    groups, total, n, k = len(sizes), sum(sizes), 128, 128
    made = grouped(groups, total, n, k, cluster)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((total, k), (groups, k, n)))
    offsets = np.cumsum((0, *sizes)).astype(np.int32)
    parts = [a[first:last].astype(np.float32) @ b[g] for g, (first, last) in enumerate(itertools.pairwise(offsets))]
    want = np.concatenate(parts).astype(np.float16)
    got = np.full_like(want, np.nan)
    simulate(made, [a, b, offsets, got], target=TARGET, lazy=True, seed=1)
    np.testing.assert_array_equal(want, got)
