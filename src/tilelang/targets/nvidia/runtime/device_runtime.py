"""The runtime of NVIDIA's GPUs: compiles kernels, loads and launches them."""

from __future__ import annotations

from tilelang.targets.gpu.runtime.device_runtime import DeviceRuntime
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.nvidia.runtime.cuda_driver import open_driver
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram

RUNTIME = DeviceRuntime(open_driver, CudaProgram, FailureBoard())
