"""Runs kernels on the simulator and compares them with the reference interpreter."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from harness import assert_same, run_reference_on_copies

from tilelang.errors import SimulationError
from tilelang.ir.func import Level, PrimFunc
from tilelang.jit.simulator_runner import SimulatorRunner
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.runtime.arrays import borrow
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.target import Target
from tilelang.testing import to_host


def target_of(arch: str) -> Target:
    """The GPU of an architecture."""
    return Target("hip" if arch.startswith("gfx") else "cuda", arch)


def lower_func(func: PrimFunc, arch: str = "sm_80", options: CompileOptions = CompileOptions()) -> PrimFunc:
    """The thread-level program that would be printed for the GPU; a function that is one already stays as it is."""
    if func.level is Level.THREAD:
        return func
    target = target_of(arch)
    backend = import_module(f"tilelang.targets.{'amd' if target.kind == 'hip' else 'nvidia'}.backend").BACKEND
    return run_passes(func, backend.passes, PassContext(options, target))


def simulate_func(
    func: PrimFunc,
    arguments: Sequence[Any],
    arch: str = "sm_80",
    lazy: bool = True,
    seed: int = 0,
    report: Counters | None = None,
    printer: Callable[[str], object] = print,
) -> list[Any]:
    """The arguments after the simulator ran the lowered kernel on copies of them."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    lowered = lower_func(func, arch)
    simulate(
        lowered, copies, target=target_of(arch), lazy=lazy, seed=seed, report=report, printer=printer
    )
    return copies


def assert_simulates(
    func: PrimFunc,
    *arguments: Any,
    arch: str = "sm_80",
    seeds: Sequence[int] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> list[Any]:
    """The tensors after the kernel ran: the same on the reference and on the simulator.

    There lazily and eagerly with each of the seeds, or in the usual schedules.
    """
    expected = run_reference_on_copies(func, arguments)
    lowered = lower_func(func, arch)
    for lazy, seed in SCHEDULES if seeds is None else itertools.product((True, False), seeds):
        actual = simulate_func(lowered, arguments, arch, lazy, seed)
        for want, got in zip(expected, actual, strict=True):
            if isinstance(want, np.ndarray):
                assert_same(want, got, rtol, atol)
    return expected


_SLOW = bool(os.environ.get("TILELANG_SLOW_TESTS"))
SEEDS = (0, 1, 2) if _SLOW else (int(os.environ.get("TILELANG_SAMPLE", "0")) % 3,)
"""Of orders in which warps run: all with TILELANG_SLOW_TESTS, else one, which TILELANG_SAMPLE changes."""
SCHEDULES = [(lazy, seed) for seed in SEEDS for lazy in (True, False)] if _SLOW else [(True, SEEDS[0]), (False, (SEEDS[0] + 1) % 3)]
"""Whether engines work lazily, and a seed."""


def in_every_schedule(func: PrimFunc, *arguments: Any, arch: str = "sm_80") -> list[Any]:
    """The arguments after the kernel, which are the same in whatever order warps run and engines work."""
    lowered = lower_func(func, arch)
    first, *others = (simulate_func(lowered, arguments, arch, lazy, seed) for lazy, seed in SCHEDULES)
    for other in others:
        for want, got in zip(first, other, strict=True):
            np.testing.assert_array_equal(want, got)
    return first


def outcomes(func: PrimFunc, *arguments: Any, arch: str = "sm_80") -> Iterator[Any]:
    """The arguments after the kernel, or the error it ended with, for every such order."""
    lowered = lower_func(func, arch)
    for lazy, seed in SCHEDULES:
        try:
            yield simulate_func(lowered, arguments, arch, lazy, seed)
        except SimulationError as error:
            yield error


def run_every_schedule(monkeypatch: pytest.MonkeyPatch, schedules: Sequence[tuple[bool, int]] = SCHEDULES) -> None:
    """Lets calls of kernels on the simulator run in several schedules, all with the same result."""

    def call(runner: SimulatorRunner, *args: Any) -> Any:
        signature = runner._signature
        before = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
        first: list[np.ndarray] = []
        for lazy, seed in schedules:
            for given, kept in zip(args, before, strict=True):
                if isinstance(given, np.ndarray):
                    given[...] = kept
            result = runner.simulate(args, lazy=lazy, seed=seed)
            results = result if isinstance(result, (list, tuple)) else [result]
            outputs = zip(signature.outputs, results, strict=False)
            results = [array for index, array in outputs if index in signature.written]
            arrays = [np.array(to_host(a)) for a in (*args, *results) if borrow(a) is not None]
            first = first or arrays
            for want, got in zip(first, arrays, strict=True):
                np.testing.assert_array_equal(got, want)
        return result

    monkeypatch.setattr(SimulatorRunner, "call", call)
