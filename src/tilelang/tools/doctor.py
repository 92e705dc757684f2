"""What this machine has for kernels: compilers, a GPU, frameworks, a cache, and how to get what is missing.

Takes the machine as it is, gives findings. Invariant: nothing is changed, and nothing that is missing is an error.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable

from tilelang.errors import TileLangError
from tilelang.options import VARIABLES, cache_folder, is_cache_enabled
from tilelang.records import record
from tilelang.runtime import cache
from tilelang.targets.cpu.runtime.toolchain import find_compiler
from tilelang.targets.nvidia.runtime.cuda_driver import open_driver
from tilelang.targets.nvidia.runtime.nvcc import find_tool
from tilelang.targets.nvidia.runtime.nvrtc import open_nvrtc
from tilelang.targets.target import parse_target

_PACKAGES = {
    "numpy": "pip install numpy",
    "torch": "pip install torch (tensors on a GPU, and timing against it)",
    "cupy": "pip install cupy-cuda13x (tensors on a GPU, instead of torch)",
    "matplotlib": "pip install matplotlib (pictures of layouts as PDF and PNG; SVG needs nothing)",
}


@record
class Finding:
    """One thing that was looked for.

    Attributes:
        what: Its name.
        found: What there is; empty if nothing.
        missing: Why it is not there, and how to get it.
    """

    what: str
    found: str
    missing: str = ""

    def __str__(self) -> str:
        return f"{'found  ' if self.found else 'missing'}  {self.what}: {self.found or self.missing}"


def findings() -> list[Finding]:
    """All that kernels can use, in the order in which they need it."""
    return [
        Finding("Python", f"{platform.python_version()} on {platform.platform()}"),
        Finding("tilelang", f"{importlib.metadata.version('tilelang')} in {__file__.rpartition('/tools/')[0]}"),
        _ask("C++ compiler (target cpu)", _compiler),
        _ask("CUDA compiler (target cuda)", lambda: str(open_nvrtc())),
        Finding("nvcc", find_tool("nvcc") or "", 'only for execution_backend="nvcc"; part of the CUDA toolkit'),
        Finding(
            "disassembler",
            find_tool("nvdisasm") or find_tool("cuobjdump") or "",
            "only for get_sass(); part of the CUDA toolkit",
        ),
        _ask("GPU", _gpus),
        *(_package(name, how) for name, how in _PACKAGES.items()),
        _ask("compile cache", _cache),
        _ask("default target", lambda: str(parse_target(None))),
        *(Finding(name, f"{row.read()!r} in the environment") for name, row in VARIABLES.items() if _is_set(name)),
    ]


def can_compile(found: list[Finding]) -> bool:
    """Whether kernels can be compiled for anything."""
    return any(finding.found for finding in found if "compiler (target" in finding.what)


def _is_set(name: str) -> bool:
    row = VARIABLES[name]
    return row.read() != row.default


def _ask(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, look())
    except TileLangError as error:
        how = f"\n{' ' * 11}{error.hint}" if error.hint else ""
        return Finding(what, "", error.message.splitlines()[0] + how)


def _compiler() -> str:
    compiler = find_compiler()
    return f"{compiler}{'' if compiler.openmp else ' (without OpenMP: blocks run on one core)'}"


def _gpus() -> str:
    driver = open_driver()
    names = [
        f"{driver.name(device)} (sm_{''.join(map(str, driver.capability(device)))})"
        for device in range(driver.device_count())
    ]
    return ", ".join(names)


def _package(name: str, how: str) -> Finding:
    for known in (name, f"{name}-cuda13x", f"{name}-cuda12x"):
        try:
            return Finding(name, importlib.metadata.version(known))
        except importlib.metadata.PackageNotFoundError:
            continue
    return Finding(name, "", how)


def _cache() -> str:
    if not is_cache_enabled():
        return "switched off"
    kept = cache.entries()
    return f"{cache_folder()}, {len(kept)} entries, {size_text(sum(path.stat().st_size for path in kept))}"


def size_text(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"
