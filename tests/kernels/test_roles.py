"""Kernels whose threads bring tiles and compute at the same time give what the program says, however late copies land."""

import numpy as np
import pytest
from roles import launch_of, product

from tilelang.backends.cuda import BACKEND
from tilelang.ir.func import Level
from tilelang.options import CompileOptions
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.tile import persist_grid
from tilelang.sim.run import simulate
from tilelang.target import Target

TARGET = Target("cuda", "sm_90a")
FEW = 2  # blocks, so that each has several tiles


def lowered(func, **pass_configs):
    few = Pass("persist_grid", lambda f, _: persist_grid.persist(f, FEW), Level.TILE, Level.TILE)
    passes = [few if step.name == few.name else step for step in BACKEND.passes]
    options = CompileOptions.from_user({f"tl.{name}": value for name, value in pass_configs.items()})
    made = run_passes(func, passes, PassContext(options, TARGET))
    assert launch_of(made).plan.schedule is not None
    return made


def check(sizes, tile, timings, **pass_configs):
    M, N, K = sizes
    made = lowered(product(M, N, K, *tile), **pass_configs)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    for lazy, seed in timings:
        c = np.full((M, N), np.nan, np.float16)
        simulate(made, [a, b, c], target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal(want, c)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_tiled_product_of_the_seeds(lazy, seed):
    check((64, 128, 192), (64, 64, 64), [(lazy, seed)], stages=2)


@pytest.mark.parametrize(
    "wishes",
    [
        {"persistent": True, "ping_pong": False},
        {"persistent": True, "ping_pong": False, "in_flight": 0, "staged": False},
        {"persistent": True, "ping_pong": True},
    ],
)
def test_tiles_of_blocks_that_stay_and_do_not_divide_the_sizes(wishes):
    check((100, 200, 136), (64, 64, 64), [(False, 0), (True, 1)], stages=2, **wishes)


def test_two_warpgroups_share_a_tile():
    check((128, 64, 128), (128, 64, 64), [(True, 0)], stages=2)
