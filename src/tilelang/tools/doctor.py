"""The components that this machine has for kernels: compilers, a GPU, frameworks, a cache; how to get missing ones.

Takes the machine as it is, gives findings. Invariant: nothing that is missing is an error, and only the cache is
written to.
"""

from __future__ import annotations

import importlib.metadata
import platform
import warnings

from tilelang.environment import VARIABLES, cache_folder, is_cache_enabled
from tilelang.errors import OptionError
from tilelang.runtime import cache
from tilelang.runtime.finding import Finding, look_for
from tilelang.targets.registry import families
from tilelang.targets.target import parse_target

_PACKAGES = {
    "numpy": "pip install numpy",
    "torch": "pip install torch (tensors on a GPU, and timing against it)",
    "cupy": "pip install cupy-cuda13x (tensors on a GPU, instead of torch)",
    "matplotlib": "pip install matplotlib (pictures of layouts as PDF and PNG; SVG needs nothing)",
}


def findings() -> list[Finding]:
    """All that kernels can use, in the order in which they need it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a cache that cannot be written: a finding says it
        return [
            Finding("Python", f"{platform.python_version()} on {platform.platform()}"),
            Finding("tilelang", f"{importlib.metadata.version('tilelang')} in {__file__.rpartition('/tools/')[0]}"),
            *(finding for family in families().values() for finding in family.found()),
            *(_package(name, how) for name, how in _PACKAGES.items()),
            look_for("compile cache", _cache),
            look_for("default target", lambda: str(parse_target(None))),
            *(Finding(name, f"{row.read()!r} in the environment") for name, row in VARIABLES.items() if _is_set(name)),
        ]


def can_compile(found: list[Finding]) -> bool:
    """Whether kernels can be compiled for anything."""
    return any(finding.found for finding in found if finding.compiles)


def _is_set(name: str) -> bool:
    row = VARIABLES[name]
    return row.read() != row.default


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
    if not cache.is_writable():
        raise OptionError(
            f"{cache_folder()} cannot be written, so that kernels are compiled again in every process",
            hint="set TILELANG_CACHE_DIR to a folder that can be written",
        )
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
