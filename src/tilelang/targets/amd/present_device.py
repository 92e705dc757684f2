"""The architecture of the AMD GPU of this machine.

Invariant: HIP is asked at most once per process, and not at all where its
library is not installed, or Linux has no device for it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys

from tilelang.targets.amd.machines import arch_of
from tilelang.targets.amd.runtime.hip_library import open_library

# The record of a device has a layout for each version of HIP, all of which fit and begin with its name of 256 bytes
_QUERIES = ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties")
_PROPERTIES_BYTES, _NAME_BYTES = 8192, 256
_ARCH = re.compile(rb"gfx[0-9a-f]+")
# Without one of these HIP has no device, and its library is searched in many places.
# Source: ROCm documentation, "Running ROCm Docker containers"; "Use ROCm on Radeon GPUs", WSL
_DEVICE_NODES = ("/dev/kfd", "/dev/dxg")


@functools.lru_cache(maxsize=1)
def present_arch() -> str | None:
    """The architecture of the first device that HIP lists, or None without HIP or a device that code is compiled for.

    Cached, since devices do not change while a process runs.
    """
    if sys.platform == "linux" and not any(map(os.path.exists, _DEVICE_NODES)):
        return None
    library = open_library("amdhip64")
    return None if library is None else _query(library)


def _query(library: ctypes.CDLL) -> str | None:
    """The architecture of the first device."""
    count = ctypes.c_int()
    try:
        if library.hipGetDeviceCount(ctypes.byref(count)) or count.value < 1:
            return None
        return arch_of(device_arch(library, 0))
    except AttributeError:
        return None


def device_arch(library: ctypes.CDLL, device: int) -> str:
    """What HIP calls the architecture of a device, as "gfx942"; empty if it does not say."""
    properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
    query = next((getattr(library, name) for name in _QUERIES if hasattr(library, name)), None)
    if query is None or query(ctypes.byref(properties), device):
        return ""
    found = _ARCH.search(properties.raw, _NAME_BYTES)
    return "" if found is None else found.group().decode()
