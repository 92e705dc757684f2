"""The CPU's passes preserve the results of random kernels."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import random_program

from tilelang.ir.func import Level
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.cpu.backend import BACKEND


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.booleans())
def test_every_pass_preserves_integer_results(seed, symbolic):
    program = random_program(seed, symbolic=symbolic)
    expected = [a.copy() for a in program.arguments]
    run_reference(program.func, expected)
    snapshots = []
    run_passes(program.func, BACKEND.passes, snapshots=snapshots)
    for before, snapshot in itertools.pairwise(snapshots):
        if snapshot.func is before.func:
            continue
        if any(isinstance(s, CallStmt) for s in walk(snapshot.func.body)):
            continue  # only compiled kernels call routines
        actual = [a.copy() for a in program.arguments]
        run_reference(snapshot.func, actual)
        for want, got in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=snapshot.name)


def test_levels_follow_one_another():
    levels = [Level.TILE]
    for step in BACKEND.passes:
        assert levels[-1] is step.reads
        levels.append(step.writes)
    assert levels[-1] is Level.THREAD
