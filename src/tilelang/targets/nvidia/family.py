"""The registry's entry for NVIDIA's GPUs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tilelang.targets.family import REFERENCE, SIMULATOR, Family
from tilelang.targets.nvidia.machines import DEFAULT_ARCH, MACHINES, runs_on


def _compiler() -> Any:
    return import_module("tilelang.targets.nvidia.runtime.device_code")


def _present() -> str | None:
    found: str | None = import_module("tilelang.targets.nvidia.present_device").present_arch()
    return found


FAMILY = Family(
    kind="cuda",
    published="cuda",
    title="NVIDIA GPUs",
    keys=("cuda", "gpu"),
    aliases=("cuda", "nvptx", "cutedsl"),
    nicknames=("gpu", "nvidia"),
    prefix="sm_",
    machines=MACHINES,
    default=DEFAULT_ARCH,
    present=_present,
    runs_on=runs_on,
    execution_backends={"nvrtc": "'nvrtc' or 'nvcc' for compiled code", "nvcc": "", **SIMULATOR, **REFERENCE},
    compiled_names=("tvm_ffi", "cython", "ctypes", "cutedsl"),
    gemm_tiles=lambda machine, rows: import_module("tilelang.targets.nvidia.gemm_tiles").gemm_tiles(machine, rows),
    module="tilelang.targets.nvidia.backend",
    build=lambda source, target, options, compiler: _compiler().build(source, target.arch, compiler, options),
    identity=lambda options, compiler: _compiler().identity(compiler, options),
    runtime="tilelang.targets.nvidia.runtime.device_runtime",
    findings="tilelang.targets.nvidia.runtime.findings",
)
