"""The published module for measuring: `tilelang.profiler.do_bench` and the profiler of a kernel."""

from tilelang.profile.inputs import TensorSupplyType
from tilelang.profile.profiler import Profiler
from tilelang.profile.timer import do_bench

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]
