"""The components that this machine has for kernels on NVIDIA's GPUs."""

from __future__ import annotations

from tilelang.runtime.finding import Finding, look_for
from tilelang.targets.gpu.runtime.driver import device_names
from tilelang.targets.nvidia.runtime.cuda_driver import open_driver
from tilelang.targets.nvidia.runtime.nvcc import find_tool
from tilelang.targets.nvidia.runtime.nvrtc import open_nvrtc


def findings() -> list[Finding]:
    """Return the findings, in the order in which kernels need the components."""
    return [
        look_for("CUDA compiler (target cuda)", lambda: str(open_nvrtc()), compiles=True),
        Finding("nvcc", find_tool("nvcc") or "", 'only for execution_backend="nvcc"; part of the CUDA toolkit'),
        Finding(
            "CUDA disassembler",
            find_tool("nvdisasm") or find_tool("cuobjdump") or "",
            "only for get_sass(); part of the CUDA toolkit",
        ),
        look_for("NVIDIA GPU", lambda: device_names(open_driver())),
    ]
