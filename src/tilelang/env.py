"""`tilelang.env`: the environment as programs read it; the module is also the object `tilelang.env.env`.

Its attributes read the environment at each access; setting one sets the environment variable. Python gives a module's
name to the module once it has been imported, so the module has to be the object.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilelang.api import public
from tilelang.environment import (
    VARIABLES,
    cache_folder,
    disable_cache,
    enable_cache,
    environment,
    environment_flag,
    is_cache_enabled,
)
from tilelang.targets.nvidia.runtime.nvcc import find_tool
from tilelang.targets.target import TargetLike, parse_target

if TYPE_CHECKING:
    env: _Environment

__all__ = ["CacheState", "disable_cache", "enable_cache", "env", "is_cache_enabled"]


class CacheState:
    """The switch of the compile cache, as a class."""

    enable = staticmethod(enable_cache)
    disable = staticmethod(disable_cache)
    is_enabled = staticmethod(is_cache_enabled)


@public
def get_default_target() -> TargetLike:
    """Return the value of TILELANG_DEFAULT_TARGET: a name, or a mapping where it is JSON.

    Raises:
        ValueError: It is neither.
    """
    text = environment("TILELANG_DEFAULT_TARGET")
    parse_target(None)
    found: TargetLike = json.loads(text) if text.startswith("{") else text
    return found


@public
def is_print_on_compilation_enabled() -> bool:
    """Whether a line is printed for every kernel that is compiled."""
    return environment_flag("TILELANG_PRINT_ON_COMPILATION")


def _cuda_home() -> str:
    """The folder of the CUDA toolkit; an empty text where there is none."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    compiler = None if named else find_tool("nvcc")
    return named or (str(Path(compiler).resolve().parent.parent) if compiler else "")


_READERS: dict[str, Callable[[], str]] = {
    **{name: variable.read for name, variable in VARIABLES.items()},
    "CUDA_HOME": _cuda_home,
    "TILELANG_CACHE_DIR": lambda: str(cache_folder()),
    "TILELANG_TMP_DIR": lambda: environment("TILELANG_TMP_DIR") or tempfile.gettempdir(),
}


class _Environment(ModuleType):
    """The module, with an attribute for each variable."""

    @property
    def env(self) -> _Environment:
        """The module again."""
        return self


def _attribute(name: str) -> property:
    def read(_: _Environment) -> Any:
        return _READERS[name]()

    def write(_: _Environment, value: object) -> None:
        os.environ[name] = str(value)

    return property(read, write)


for _name in _READERS:
    setattr(_Environment, _name, _attribute(_name))
sys.modules[__name__].__class__ = _Environment
