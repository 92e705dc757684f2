"""The architecture of the NVIDIA GPU of this machine.

Takes nothing, gives the name of a machine. Invariant: the driver and the management library (NVML) are queried at most
once per process, and not at all while a record in the cache folder matches the devices.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os

from tilelang.environment import cache_folder, is_cache_enabled
from tilelang.errors import CacheError
from tilelang.targets.nvidia.machines import arch_of

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # Source: CUDA Driver API, enum CUdevice_attribute


@functools.lru_cache(maxsize=1)
def present_arch() -> str | None:
    """The architecture of the first device that the driver lists, or None without a driver or a supported device.

    Cached, since devices do not change while a process runs.
    """
    try:
        driver = ctypes.CDLL("nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1")
    except OSError:
        return None
    fingerprint = _fingerprint()
    capability = _cached_capability(fingerprint)
    if capability is None:
        capability = _query_nvml()
        if capability is None:
            capability = _query_driver(driver)
        else:
            _cache_capability(fingerprint, capability)
    return None if capability is None else arch_of(*capability)


def _query_driver(driver: ctypes.CDLL) -> tuple[int, int] | None:
    """The compute capability of the first device."""
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    try:
        answers = (
            driver.cuInit(0)
            or driver.cuDeviceGet(ctypes.byref(device), 0)
            or driver.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, device)
            or driver.cuDeviceGetAttribute(ctypes.byref(minor), _CAPABILITY_MINOR, device)
        )
    except AttributeError:
        return None
    return None if answers else (major.value, minor.value)


_KERNEL_MODULE, _NODES = "/proc/driver/nvidia", "/dev"
_RECORD = "devices.json"  # in the cache folder


def _fingerprint() -> list[str] | None:
    """Texts that change whenever the result of `_query_nvml` may; None where there are none, or devices differ.

    Reading them takes a tenth of the time of a query.
    """
    from pathlib import Path  # noqa: PLC0415  only where there is a driver
    try:
        devices = [path.read_text() for path in sorted(Path(_KERNEL_MODULE).glob("gpus/*/information"))]
        version = Path(_KERNEL_MODULE, "version").read_text()
        nodes = sorted(name for name in os.listdir(_NODES) if name.startswith("nvidia"))
    except OSError:
        return None
    models = {line for text in devices for line in text.splitlines() if line.startswith("Model:")}
    choice = [os.environ.get(name, "all") for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")]
    return [version, *devices, *nodes, *choice] if len(models) == 1 else None


def _cached_capability(fingerprint: list[str] | None) -> tuple[int, int] | None:
    """The cached compute capability for the same fingerprint."""
    if fingerprint is None or not is_cache_enabled():
        return None
    import json  # noqa: PLC0415  as above
    try:
        cached = json.loads((cache_folder() / _RECORD).read_text())
        major, minor = cached["capability"] if cached["seen"] == fingerprint else (None, None)
    except (CacheError, OSError, ValueError, LookupError, TypeError):
        return None
    return (major, minor) if isinstance(major, int) and isinstance(minor, int) else None


def _cache_capability(fingerprint: list[str] | None, capability: tuple[int, int]) -> None:
    """Caches the compute capability for other processes; does nothing where the cache is not writable."""
    if fingerprint is None or not is_cache_enabled():
        return
    import json  # noqa: PLC0415  as above
    with contextlib.suppress(CacheError, OSError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{_RECORD}.{os.getpid()}"
        temporary.write_text(json.dumps({"seen": fingerprint, "capability": capability}))
        os.replace(temporary, folder / _RECORD)


def _query_nvml() -> tuple[int, int] | None:
    """The compute capability of the first device from NVML, without initializing CUDA.

    Initializing CUDA takes longer than loading a cached kernel: 0.18 s on a machine with one H200, where this takes
    6 ms. The library stays open, since closing it takes longer still. None where only the driver can determine the
    first device, or whether there is one: devices differ, some are hidden, or divided into instances.

    Source: NVML API Reference, "Device Queries" and "Multi Instance GPU Management"; CUDA C++ Programming Guide, "CUDA
    Environment Variables".
    """
    try:
        library = ctypes.CDLL("nvml.dll" if hasattr(ctypes, "WinDLL") else "libnvidia-ml.so.1")
        return None if library.nvmlInit_v2() else _common_capability(library)
    except (OSError, AttributeError):
        return None


def _common_capability(library: ctypes.CDLL) -> tuple[int, int] | None:
    """The compute capability common to all devices, if the first one of them is not hidden."""
    count, device = ctypes.c_uint(), ctypes.c_void_p()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return None
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip()
    if not first.isdecimal() or int(first) >= count.value:
        return None
    found = set()
    for index in range(count.value):
        major, minor = ctypes.c_int(), ctypes.c_int()
        divided, soon = ctypes.c_uint(), ctypes.c_uint()
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            return None
        if library.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor)):
            return None
        library.nvmlDeviceGetMigMode(device, ctypes.byref(divided), ctypes.byref(soon))  # many devices have none
        if divided.value:
            return None
        found.add((major.value, minor.value))
    return found.pop() if len(found) == 1 else None
