"""The CPU target in the registry."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tilelang.targets.family import NATIVE, REFERENCE, Family
from tilelang.targets.machine import Machine


def _compiler() -> Any:
    return import_module("tilelang.targets.cpu.runtime.host_compiler")


FAMILY = Family(
    kind="cpu",
    published="c",
    title="the CPU",
    keys=("cpu",),
    aliases=("cpu", "c", "llvm", "host"),
    nicknames=("x86",),
    prefix="",
    # the threads of a block are ignored
    machines={NATIVE: Machine(NATIVE, max_threads=1024)},
    default=NATIVE,
    present=lambda: NATIVE,
    runs_on=lambda code_for, machine: code_for == machine,
    execution_backends={"cc": "'cc' for compiled code", **REFERENCE},
    compiled_names=("tvm_ffi", "cython", "ctypes"),
    gemm_tiles=lambda machine, rows: import_module("tilelang.targets.cpu.gemm_tiles").gemm_tiles(machine, rows),
    module="tilelang.targets.cpu.backend",
    build=lambda source, target, options, compiler: _compiler().build(source, options),
    identity=lambda options, compiler: _compiler().identity(options),
    findings="tilelang.targets.cpu.runtime.findings",
)
