"""The runtime for kernels on AMD's GPUs."""

from __future__ import annotations

from tilelang.targets.amd.runtime.hip_driver import open_driver
from tilelang.targets.amd.runtime.hip_program import HipProgram
from tilelang.targets.gpu.runtime.device_runtime import DeviceRuntime
from tilelang.targets.gpu.runtime.failures import FailureBoard

RUNTIME = DeviceRuntime(open_driver, HipProgram, FailureBoard())
