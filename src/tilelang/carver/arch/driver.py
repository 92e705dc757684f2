"""Figures of the GPU that is present; where there is none, those of the GPU that kernels are compiled for."""

from __future__ import annotations

from tilelang.api import public
from tilelang.targets.nvidia.present_device import present_arch
from tilelang.targets.nvidia.runtime.cuda_driver import (
    L2_BYTES,
    MAX_SHARED_BYTES,
    MULTIPROCESSORS,
    REGISTERS,
    SHARED_BYTES,
    open_driver,
)
from tilelang.targets.target import parse_target


@public
def get_num_sms(device_id: int = 0) -> int:
    """Multiprocessors of a device, as for the grid of a persistent kernel."""
    return _figure(device_id, MULTIPROCESSORS, parse_target("cuda").machine.multiprocessors)


@public
def get_max_dynamic_shared_size_bytes(device_id: int = 0) -> int:
    """Bytes of shared memory that a block may have."""
    return _figure(device_id, MAX_SHARED_BYTES, parse_target("cuda").machine.shared_bytes)


@public
def get_shared_memory_per_block(device_id: int = 0) -> int:
    """Bytes of shared memory that a block has without asking for more: 48 KiB on every GPU.

    Source: CUDA C++ Programming Guide, "Compute Capabilities": more than 48 KiB is dynamic and asked for.
    """
    return _figure(device_id, SHARED_BYTES, 48 * 1024)


@public
def get_registers_per_block(device_id: int = 0) -> int:
    """Registers, of 32 bits, that a block may have: 64 Ki on every GPU here.

    Source: CUDA C++ Programming Guide, "Compute Capabilities".
    """
    return _figure(device_id, REGISTERS, 64 * 1024)


@public
def get_l2_cache_size_bytes(device_id: int = 0) -> int:
    """Bytes of the L2 cache.

    Raises:
        DriverError: There is no device.
    """
    return open_driver().attribute(device_id, L2_BYTES)


@public
def get_device_name(device_id: int = 0) -> str:
    """Return the name of the device; as `get_cuda_device_name`."""
    return get_cuda_device_name(device_id)


@public
def get_cuda_device_name(device_id: int = 0) -> str:
    """Return the name of the device.

    Raises:
        DriverError: There is no device.
    """
    return open_driver().name(device_id)


def _figure(device: int, which: int, known: int) -> int:
    """A figure of a device, or what is known about the target without one.

    Raises:
        DriverError: There is no such device, or nothing is known.
    """
    if present_arch() is None and known and device == 0:
        return known
    return open_driver().attribute(device, which)
