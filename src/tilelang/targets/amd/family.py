"""The entry of AMD's GPUs in the registry of targets."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tilelang.targets.amd.machines import EXAMPLE_ARCH, MACHINES
from tilelang.targets.family import REFERENCE, SIMULATOR, Family


def _compiler() -> Any:
    return import_module("tilelang.targets.amd.runtime.device_code")


def _present() -> str | None:
    found: str | None = import_module("tilelang.targets.amd.present_device").present_arch()
    return found


# Source: LLVM, "User Guide for AMDGPU Backend", "Processors"
_PRODUCTS = {
    "gfx90a": ("mi210", "mi250", "mi250x"),
    "gfx942": ("mi300", "mi300a", "mi300x", "mi325x"),
    "gfx950": ("mi350x", "mi355x"),
    "gfx1100": ("rx7900xtx", "rx7900xt"),
}

FAMILY = Family(
    kind="hip",
    published="hip",
    title="AMD GPUs",
    keys=("hip", "gpu"),
    aliases=("hip", "rocm"),
    nicknames=("amd", "amdgpu"),
    prefix="gfx",
    machines=MACHINES,
    default=EXAMPLE_ARCH,
    must_be_named=True,
    present=_present,
    runs_on=lambda code_for, machine: code_for == machine,
    execution_backends={"clang": "'clang' or 'hiprtc' for compiled code", "hiprtc": "", **SIMULATOR, **REFERENCE},
    compiled_names=("tvm_ffi", "cython", "ctypes"),
    gemm_tiles=lambda machine, rows: import_module("tilelang.targets.amd.gemm_tiles").gemm_tiles(machine, rows),
    module="tilelang.targets.amd.backend",
    build=lambda source, target, options, compiler: _compiler().build(source, target.arch, compiler, options),
    identity=lambda options, compiler: _compiler().identity(compiler, options),
    runtime="tilelang.targets.amd.runtime.device_runtime",
    findings="tilelang.targets.amd.runtime.findings",
    products={product: machine for machine, products in _PRODUCTS.items() for product in products},
)
