"""The published place of the CUDA toolchain: `tilelang.contrib.nvcc`."""

from tilelang.contrib import nvcc
from tilelang.contrib.nvcc import compile_cuda

__all__ = ["compile_cuda", "nvcc"]
