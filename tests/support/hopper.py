"""Runs kernels for Hopper on the simulator, in every schedule of warps and asynchronous work."""

import numpy as np
from gpu import SCHEDULES, in_every_schedule, lower_func

from tilelang.errors import SimulationError
from tilelang.sim.run import simulate
from tilelang.targets.target import Target

HOPPER = Target("cuda", "sm_90a")
TARGET = {"kind": "cuda", "arch": "sm_90a"}


def integers(*shape, dtype=np.float16):
    return np.random.randint(-3, 4, shape).astype(dtype)


def results(func, *arguments):
    """The arguments after the kernel, which are the same in every schedule."""
    return in_every_schedule(func, *arguments, arch="sm_90a")


def failures(func, *arguments):
    """What goes wrong in each schedule; None where nothing does."""
    lowered = lower_func(func, "sm_90a")
    for lazy, seed in SCHEDULES:
        try:
            simulate(lowered, [np.array(a) for a in arguments], target=HOPPER, lazy=lazy, seed=seed)
        except SimulationError as error:
            yield error
        else:
            yield None
