"""Runs one kernel on every executor and compares the results."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tilelang
from tilelang.ir.func import PrimFunc
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.run import simulate
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.target import Target


def run_reference_on_copies(func: PrimFunc, arguments: Sequence[Any]) -> list[Any]:
    """The arguments after the reference interpreter ran the kernel on copies of them."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    run_reference(func, copies)
    return copies


def run_cpu_on_copies(func: PrimFunc, arguments: Sequence[Any], compile_flags: str | None = None) -> list[Any]:
    """The arguments after the compiled CPU kernel ran on copies of them."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    tilelang.compile(func, target="cpu", execution_backend="cc", compile_flags=compile_flags)(*copies)
    return copies


def simulate_on_copies(func: PrimFunc, arguments: Sequence[Any], arch: str = "sm_80") -> list[Any]:
    """The arguments after the simulator ran the kernel as compiled for a GPU, on copies of them."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    target = Target("cuda", arch)
    lowered = run_passes(func, import_module("tilelang.targets.nvidia.backend").BACKEND.passes, PassContext(target=target))
    simulate(lowered, copies, target=target)
    return copies


SIMULATED_AMD = ("gfx942", "gfx950", "gfx1100", "gfx1200")
BACKENDS = (
    "auto", "reference", "simulator",
    *(pytest.param(arch, marks=pytest.mark.slow(every=n)) for arch, n in zip(SIMULATED_AMD, (7, 8, 9, 11), strict=True)),
)  # fmt: skip


def way(backend: str) -> dict[str, str]:
    """What to compile with for a way to run: "auto", "reference", "simulator", which is of sm_80, or a GPU of AMD."""
    if backend in SIMULATED_AMD:
        return {"execution_backend": "simulator", "target": backend}
    return {"execution_backend": backend, "target": "sm_80" if backend == "simulator" else "auto"}


def assert_same(expected: Any, actual: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Equality for integers and booleans, closeness for floats; NaN equals NaN."""
    assert expected.dtype == actual.dtype
    assert expected.shape == actual.shape
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(actual, expected)
    else:
        wide = np.float64
        np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=rtol, atol=atol, equal_nan=True)


def run_everywhere(
    func: PrimFunc, *arguments: Any, rtol: float = 1e-5, atol: float = 1e-6, compile_flags: str | None = None
) -> list[Any]:
    """The tensors after the kernel ran, the same on the reference interpreter, the CPU and a simulated GPU."""
    expected = run_reference_on_copies(func, arguments)
    for actual in (run_cpu_on_copies(func, arguments, compile_flags), simulate_on_copies(func, arguments)):
        for want, got in zip(expected, actual, strict=True):
            if isinstance(want, np.ndarray):
                assert_same(want, got, rtol, atol)
    return expected
