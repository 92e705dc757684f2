"""Runs kernels on the simulator of GPUs, and insists that they agree with the reference interpreter."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from harness import assert_same, run_reference_on_copies

from tilelang.ir.func import Level, PrimFunc
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.target import Target


def lower_func(func: PrimFunc, arch: str = "sm_80", options: CompileOptions = CompileOptions()) -> PrimFunc:
    """The thread-level program that would be printed for the GPU; a function that is one already stays as it is."""
    if func.level is Level.THREAD:
        return func
    backend = import_module("tilelang.backends.cuda").BACKEND
    return run_passes(func, backend.passes, PassContext(options, Target("cuda", arch)))


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
        lowered, copies, target=Target("cuda", arch), lazy=lazy, seed=seed, report=report, printer=printer
    )
    return copies


def assert_simulates(
    func: PrimFunc,
    *arguments: Any,
    arch: str = "sm_80",
    seeds: Sequence[int] = (0, 1, 2),
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> list[Any]:
    """The tensors after the kernel ran: the same on the reference and on the simulator, lazily and eagerly."""
    expected = run_reference_on_copies(func, arguments)
    lowered = lower_func(func, arch)
    for lazy in (True, False):
        for seed in seeds:
            actual = simulate_func(lowered, arguments, arch, lazy, seed)
            for want, got in zip(expected, actual, strict=True):
                if isinstance(want, np.ndarray):
                    assert_same(want, got, rtol, atol)
    return expected
