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


# Source: NVIDIA, "CUDA GPU Compute Capability"
_PRODUCTS = {
    "sm_75": ("t4", "turing"),
    "sm_80": ("a100", "a30", "ampere"),
    "sm_86": ("a10", "a40", "a6000", "rtx3090"),
    "sm_89": ("l4", "l40", "l40s", "rtx4090", "ada"),
    "sm_90a": ("h100", "h200", "gh200", "hopper"),
    "sm_100a": ("b200", "gb200", "blackwell"),
    "sm_103a": ("b300", "gb300"),
    "sm_120a": ("rtx5090",),
}

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
    products={product: machine for machine, products in _PRODUCTS.items() for product in products},
)
