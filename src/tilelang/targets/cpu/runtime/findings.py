"""The components that this machine has for kernels on the CPU."""

from __future__ import annotations

from tilelang.runtime.finding import Finding, look_for
from tilelang.targets.cpu.runtime.toolchain import find_compiler


def findings() -> list[Finding]:
    """Return the findings, in the order in which kernels need the components."""
    return [look_for("C++ compiler (target cpu)", _compiler, compiles=True)]


def _compiler() -> str:
    compiler = find_compiler()
    return f"{compiler}{'' if compiler.openmp else ' (without OpenMP: blocks run on one core)'}"
