"""Figures of the machine at hand, for kernels that are written for it: `driver.get_num_sms()` and `CUDA("cuda")`."""

from tilelang.carver.arch import driver
from tilelang.carver.arch.cuda import CUDA
from tilelang.carver.arch.kinds import (
    CDNA,
    CPU,
    METAL,
    RDNA,
    auto_infer_current_arch,
    get_arch,
    has_mma_support,
    is_ada_arch,
    is_ampere_arch,
    is_cdna_arch,
    is_cpu_arch,
    is_cuda_arch,
    is_hopper_arch,
    is_metal_arch,
    is_rdna_arch,
    is_volta_arch,
)

__all__ = [
    "CDNA",
    "CPU",
    "CUDA",
    "METAL",
    "RDNA",
    "auto_infer_current_arch",
    "driver",
    "get_arch",
    "has_mma_support",
    "is_ada_arch",
    "is_ampere_arch",
    "is_cdna_arch",
    "is_cpu_arch",
    "is_cuda_arch",
    "is_hopper_arch",
    "is_metal_arch",
    "is_rdna_arch",
    "is_volta_arch",
]
