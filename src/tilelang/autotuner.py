"""The published module for tuning: `from tilelang.autotuner import *`."""

from tilelang.tune.autotune import TunedFunction, autotune
from tilelang.tune.gemm_space import gemm_configs
from tilelang.tune.inputs import get_autotune_inputs, set_autotune_inputs
from tilelang.tune.result import Measurement, Rejection, TuningResult
from tilelang.tune.tuner import AutoTuner

__all__ = [
    "AutoTuner",
    "Measurement",
    "Rejection",
    "TunedFunction",
    "TuningResult",
    "autotune",
    "gemm_configs",
    "get_autotune_inputs",
    "set_autotune_inputs",
]
