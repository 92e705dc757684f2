"""TileLang: kernels over tiles, written in Python, compiled for the machine at hand.

The public names and nothing else; each is loaded when it is first asked for, so that `import tilelang` costs next to
nothing (`paths` says where each lives). The language itself is `tilelang.language`, by custom imported as `T`.
"""

import sys
from typing import TYPE_CHECKING

from tilelang.errors import (
    ArgumentError,
    CacheError,
    CompilerBug,
    DataRace,
    DeviceAssertError,
    DriverError,
    NoLowering,
    OptionError,
    OutOfBounds,
    ProgramError,
    ResourceError,
    SimulationError,
    StagingError,
    TileLangError,
    ToolchainError,
    TuningError,
    UnknownAttribute,
    UnknownModule,
    UnknownName,
)
from tilelang.finder import PathFinder, add_names

if TYPE_CHECKING:
    # modules that are found as attributes without an import of their own
    from tilelang import autotuner as autotuner
    from tilelang import carver as carver
    from tilelang import contrib as contrib
    from tilelang import dtypes as dtypes
    from tilelang import errors as errors
    from tilelang import intrinsics as intrinsics
    from tilelang import language as language
    from tilelang import layout as layout
    from tilelang import math as math
    from tilelang import numpy as numpy
    from tilelang import profiler as profiler
    from tilelang import quantize as quantize
    from tilelang import testing as testing
    from tilelang import tools as tools
    from tilelang.codegen.postprocess import register_c_postproc, register_cuda_postproc, register_hip_postproc
    from tilelang.environment import disable_cache, enable_cache, is_cache_enabled, set_log_level
    from tilelang.jit.compile import compile, lower, par_compile
    from tilelang.jit.decorator import jit
    from tilelang.jit.kernel import JITKernel
    from tilelang.jit.kernel_inspection import Lowered
    from tilelang.language.dtypes import DataType
    from tilelang.layout import Fragment, Layout
    from tilelang.level1.compute import compute
    from tilelang.math import cdiv, next_power_of_2
    from tilelang.options import CompileOptions, PassConfigKey
    from tilelang.profile.inputs import TensorSupplyType
    from tilelang.profile.profiler import Profiler
    from tilelang.targets.target import Target
    from tilelang.tune.autotune import autotune
    from tilelang.version import build_date, deprecated

__all__ = [
    "ArgumentError",
    "CacheError",
    "CompileOptions",
    "CompilerBug",
    "DataRace",
    "DataType",
    "DeviceAssertError",
    "DriverError",
    "Fragment",
    "JITKernel",
    "Layout",
    "Lowered",
    "NoLowering",
    "OptionError",
    "OutOfBounds",
    "PassConfigKey",
    "Profiler",
    "ProgramError",
    "ResourceError",
    "SimulationError",
    "StagingError",
    "Target",
    "TensorSupplyType",
    "TileLangError",
    "ToolchainError",
    "TuningError",
    "UnknownAttribute",
    "UnknownModule",
    "UnknownName",
    "autotune",
    "build_date",
    "cdiv",
    "compile",
    "compute",
    "deprecated",
    "disable_cache",
    "enable_cache",
    "is_cache_enabled",
    "jit",
    "lower",
    "next_power_of_2",
    "par_compile",
    "register_c_postproc",
    "register_cuda_postproc",
    "register_hip_postproc",
    "set_log_level",
]

sys.meta_path.insert(0, PathFinder("tilelang"))
sys.meta_path.append(PathFinder("tvm"))  # where no real one is installed
add_names(sys.modules[__name__])
