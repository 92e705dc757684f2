"""Runs programs on the machine of the invented vendor."""

import numpy as np
import pytest
from gpu import SEEDS
from harness import assert_same, run_reference_on_copies

from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.target import Target


@pytest.fixture(autouse=True)
def vendor(invented):
    """All tests here are of the invented vendor."""


class Outcome:
    """What was simulated.

    Attributes:
        func: The program of a thread.
        arguments: The arguments afterwards.
        counters: What was done.
    """

    def __init__(self, func, arguments, counters):
        self.func, self.arguments, self.counters = func, arguments, counters

    def calls(self, instruction):
        """The statements that execute an instruction."""
        return [s for s in walk(self.func.body) if isinstance(s, CallStmt) and s.routine is instruction]


@pytest.fixture
def check():
    """Runs a program on the machine, with warps in the orders of `SEEDS`, and insists on what the reference gives."""

    def run(func, *arguments, arch="wave64", rtol=0.0, atol=0.0):
        target = Target("invented", arch)
        program = lowered(func, target, CompileOptions())
        expected = run_reference_on_copies(func, arguments)
        for seed in SEEDS:
            actual, counters = [np.array(a) for a in arguments], Counters()
            simulate(program, actual, target=target, seed=seed, report=counters)
            for want, got in zip(expected, actual, strict=True):
                assert_same(want, got, rtol, atol)
        return Outcome(program, actual, counters)

    return run
