"""TileLang: kernels over tiles, written in Python, compiled for the machine at hand.

The public names and nothing else; each is loaded when it is first asked for, so that `import tilelang` costs next to
nothing. The language itself is `tilelang.language`, by custom imported as `T`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    UnknownName,
)

if TYPE_CHECKING:
    from tilelang.jit.compile import Lowered, compile, lower, par_compile
    from tilelang.jit.decorator import jit
    from tilelang.jit.kernel import JITKernel
    from tilelang.math import cdiv, next_power_of_2
    from tilelang.options import CompileOptions, PassConfigKey, disable_cache, enable_cache
    from tilelang.profile.inputs import TensorSupplyType
    from tilelang.profile.profiler import Profiler
    from tilelang.target import Target
    from tilelang.tune.autotune import autotune

__all__ = [
    "ArgumentError",
    "CacheError",
    "CompileOptions",
    "CompilerBug",
    "DataRace",
    "DeviceAssertError",
    "DriverError",
    "JITKernel",
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
    "UnknownName",
    "autotune",
    "cdiv",
    "compile",
    "disable_cache",
    "enable_cache",
    "jit",
    "lower",
    "next_power_of_2",
    "par_compile",
]

# name: where it lives; the same as the imports above
_HOMES = {
    "CompileOptions": "tilelang.options",
    "JITKernel": "tilelang.jit.kernel",
    "Lowered": "tilelang.jit.compile",
    "PassConfigKey": "tilelang.options",
    "Profiler": "tilelang.profile.profiler",
    "Target": "tilelang.target",
    "TensorSupplyType": "tilelang.profile.inputs",
    "autotune": "tilelang.tune.autotune",
    "cdiv": "tilelang.math",
    "compile": "tilelang.jit.compile",
    "disable_cache": "tilelang.options",
    "enable_cache": "tilelang.options",
    "lower": "tilelang.jit.compile",
    "next_power_of_2": "tilelang.math",
    "par_compile": "tilelang.jit.compile",
}
# `jit` can also be called
_MODULES = ("autotuner", "carver", "intrinsics", "jit", "language", "layout", "math", "profiler", "testing")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tilelang.{name}")
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    if name == "__version__":
        return import_module("importlib.metadata").version("tilelang")
    near = import_module("difflib").get_close_matches(name, __dir__(), n=1, cutoff=0.6)
    raise UnknownAttribute(f"tilelang: unknown name {name!r}", hint=f"did you mean tilelang.{near[0]}?" if near else "")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__version__"})
