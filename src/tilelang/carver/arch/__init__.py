"""Figures of the machine at hand, for kernels that are written for it: `driver.get_num_sms()` and `CUDA("cuda")`."""

from tilelang.carver.arch import driver
from tilelang.carver.arch.cuda import CUDA

__all__ = ["CUDA", "driver"]
