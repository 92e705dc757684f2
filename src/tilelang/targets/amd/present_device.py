"""The architecture of the AMD GPU of this machine.

Takes nothing, gives the name of a machine. Invariant: HIP is asked at most once per process, and not at all where its
library is not installed.
"""

from __future__ import annotations

import ctypes
import functools
import re

from tilelang.targets.amd.machines import arch_of

# Source: the packages of ROCm 5 to 7; the number is the major one of HIP's interface
_LIBRARIES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
_WINDOWS_LIBRARIES = ("amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll")

# The record of a device has a layout for each version of HIP, all of which fit and begin with its name of 256 bytes
_QUERIES = ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties")
_PROPERTIES_BYTES, _NAME_BYTES = 8192, 256
_ARCH = re.compile(rb"gfx[0-9a-f]+")


@functools.lru_cache(maxsize=1)
def present_arch() -> str | None:
    """The architecture of the first device that HIP lists, or None without HIP or a device that code is compiled for.

    Cached, since devices do not change while a process runs.
    """
    library = hip_library()
    return None if library is None else _query(library)


def hip_library() -> ctypes.CDLL | None:
    """The library of HIP, or None where it is not installed."""
    for name in _WINDOWS_LIBRARIES if hasattr(ctypes, "WinDLL") else _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _query(library: ctypes.CDLL) -> str | None:
    """The architecture of the first device."""
    count, properties = ctypes.c_int(), ctypes.create_string_buffer(_PROPERTIES_BYTES)
    try:
        if library.hipGetDeviceCount(ctypes.byref(count)) or count.value < 1:
            return None
        query = next(getattr(library, name) for name in _QUERIES if hasattr(library, name))
        if query(ctypes.byref(properties), 0):
            return None
    except (AttributeError, StopIteration):
        return None
    found = _ARCH.search(properties.raw, _NAME_BYTES)
    return None if found is None else arch_of(found.group().decode())
