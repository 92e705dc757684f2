"""The names of a driver's devices, for reports."""

from __future__ import annotations

from tilelang.targets.gpu.runtime.driver import Driver


def device_names(driver: Driver) -> str:
    """The name and the architecture of each device."""
    return ", ".join(f"{driver.name(device)} ({driver.arch(device)})" for device in range(driver.device_count()))
