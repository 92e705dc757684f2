"""Gemms with split-K within a cluster, lowered and simulated beside the reference."""

import numpy as np
from harness import run_reference_on_copies
from specialized import gemm_kernel, launch_of

from tilelang.dtypes import as_dtype
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.target import Target

TARGET = Target("cuda", "sm_90a")
ALL_TIMINGS = [(lazy, seed) for lazy in (False, True) for seed in (0, 1, 2)]
TWO_TIMINGS = [(False, 0), (True, 1)]


def lowered(func, blocks, **pass_configs):
    configs = {"split": blocks, **pass_configs}
    options = CompileOptions.from_user({f"tl.{name}": value for name, value in configs.items()})
    made = run_passes(func, BACKEND.passes, PassContext(options, TARGET))
    plan = launch_of(made).plan
    assert blocks == plan.schedule.split_k, plan.notes
    return made


def draw(shape, dtype="float16", seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(as_dtype(dtype).numpy)


def check(func, blocks, arguments, timings=TWO_TIMINGS, owners=None, **pass_configs):
    """The simulator agrees with the reference, bit by bit: elements are small integers."""
    want, made = run_reference_on_copies(func, arguments)[-1], lowered(func, blocks, **pass_configs)
    notes = [note.text for note in launch_of(made).plan.notes]
    assert (owners == 1) == any("one block of each cluster has all results" in text for text in notes), notes
    for lazy, seed in timings:
        actual = [np.array(a) for a in arguments]
        simulate(made, actual, target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal(want.astype(np.float64), actual[-1].astype(np.float64))


def check_gemm(sizes, tile, blocks, *timings, out="float16", **pass_configs):
    m, n, k = sizes
    arguments = [draw((m, k)), draw((k, n), seed=1), np.full((m, n), np.nan, out)]
    check(gemm_kernel(m, n, k, *tile, out=out), blocks, arguments, timings or TWO_TIMINGS, **pass_configs)
