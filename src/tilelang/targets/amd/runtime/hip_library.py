"""Finds the libraries of HIP: the driver, libamdhip64, and its compiler, libhiprtc.

Takes the name of one, gives the path under which it can be opened. Invariant: a library that this process has opened
already is the one to use, since two drivers in one process know nothing of each other's streams and memory.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_VERSIONS = ("7", "6", "5")  # of the libraries' names
_SYSTEM = ("/opt/rocm/lib", "/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib")
_MAPS = "/proc/self/maps"
_WHEELS = ("torch/lib", "_rocm_sdk_core/lib")  # below a folder of Python's path


def find_library(name: str) -> str | None:
    """The path of a library; None where it is in none of the usual places.

    Args:
        name: "amdhip64" or "hiprtc".
    """
    loaded = _loaded(name)
    if loaded:
        return loaded
    for folder in _folders():
        for file in _file_names(name):
            path = Path(folder, file)
            if path.is_file():
                return str(path)
    return None


def open_library(name: str) -> ctypes.CDLL | None:
    """A library, opened; None where it is not installed. The argument is that of `find_library`."""
    path = find_library(name)
    for candidate in (*((path,) if path else ()), *_file_names(name)):
        try:
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    return None


def _file_names(name: str) -> tuple[str, ...]:
    """The names of its file, the plain one first."""
    if sys.platform == "win32":
        return (f"{name}.dll", *(f"{name}_{version}.dll" for version in _VERSIONS))
    return (f"lib{name}.so", *(f"lib{name}.so.{version}" for version in _VERSIONS))


def _folders() -> Iterator[str]:
    """Where libraries may be: wheels, ROCm, the folders of the system."""
    for folder in sys.path:
        for relative in _WHEELS:
            yield os.path.join(folder, relative)
    for root in filter(None, (os.environ.get("ROCM_PATH"), os.environ.get("HIP_PATH"))):
        yield os.path.join(root, "lib")
        yield os.path.join(root, "bin")
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    yield from _SYSTEM


def _loaded(name: str) -> str:
    """The path of a library that this process has open; empty if it has not, or the system does not say."""
    try:
        maps = Path(_MAPS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(rf"\s(/\S*/lib{name}(?:-[0-9a-f]+)?\.so\S*)$", maps, re.MULTILINE)
    return found[1] if found else ""
