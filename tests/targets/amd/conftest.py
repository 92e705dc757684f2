"""Runs programs as AMD's GPUs run them."""

import numpy as np
import pytest
from gpu import SEEDS
from harness import assert_same, run_reference_on_copies

from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.target import Target


@pytest.fixture
def check_program():
    """Runs a program on a machine, with waves in the orders of `SEEDS`, and insists on what the reference gives.

    Gives the arguments afterwards, and what was counted.
    """

    def run(func, *arguments, arch, rtol=0.0, atol=0.0):
        target = Target("hip", arch)
        program = lowered(func, target, CompileOptions())
        expected = run_reference_on_copies(func, arguments)
        for seed in SEEDS:
            actual, counters = [np.array(a) for a in arguments], Counters()
            simulate(program, actual, target=target, seed=seed, report=counters)
            for want, got in zip(expected, actual, strict=True):
                assert_same(want, got, rtol, atol)
        return actual, counters

    return run
