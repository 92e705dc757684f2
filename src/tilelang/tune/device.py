"""The device that kernels are tuned on: its name, and whether it can be measured."""

from __future__ import annotations

import platform
from pathlib import Path

from tilelang.environment import num_threads
from tilelang.errors import DeviceAssertError, DriverError, OptionError
from tilelang.targets.gpu.runtime.driver import Driver
from tilelang.targets.target import Target
from tilelang.tune.workers import cores


def check_can_measure(name: str, target: Target, execution_backend: str) -> None:
    """Raises if kernels cannot be timed.

    Raises:
        OptionError: Kernels are interpreted or simulated.
        DriverError: Kernels are compiled for a GPU, and there is none.
    """
    if execution_backend in ("reference", "simulator"):
        kind = "interprets" if execution_backend == "reference" else "simulates"
        raise OptionError(
            f"autotune: '{name}' cannot be tuned with execution_backend {execution_backend!r}, which {kind} kernels: "
            "their times do not reflect a device",
            hint="tune on a device or with target='cpu'; or give the tunables a value, then nothing is tuned",
        )
    if target.is_gpu:
        target.family.device_runtime().open_driver()


def device_name(target: Target) -> str:
    """The name of the device; for a CPU with its number of threads."""
    if target.is_gpu:
        driver: Driver = target.family.device_runtime().open_driver()
        return driver.name(driver.current_device() or 0)
    return f"{_processor()}, {num_threads() or cores()} threads"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def is_lost(target: Target) -> bool:
    """Whether the device is unusable after a fault of a kernel."""
    if not target.is_gpu:
        return False
    try:
        target.family.device_runtime().open_driver().synchronize()
    except (DriverError, DeviceAssertError):
        return True
    return False
