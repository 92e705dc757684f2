"""The tools and devices for AMD's GPUs that `doctor` reports."""

from __future__ import annotations

from tilelang.runtime.finding import Finding, look_for
from tilelang.targets.amd.runtime.hip_driver import open_driver
from tilelang.targets.amd.runtime.hiprtc import open_hiprtc
from tilelang.targets.amd.runtime.toolchain import find_clang
from tilelang.targets.gpu.runtime.driver import device_names


def findings() -> list[Finding]:
    """The findings, in the order in which kernels need them."""
    return [
        look_for("HIP compiler (target hip)", lambda: str(find_clang()), compiles=True),
        look_for("hiprtc, another HIP compiler", lambda: str(open_hiprtc()), compiles=True),
        look_for("AMD GPU", lambda: device_names(open_driver())),
    ]
