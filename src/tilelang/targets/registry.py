"""Which families of targets there are: who turns a program into source, and who turns source into a kernel.

Invariant: nothing is loaded before it is needed: a kernel that was compiled before needs neither the compiler proper
(passes, lowerings, printers) nor what builds for another family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilelang.errors import CompilerBug
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.targets.target import Target

if TYPE_CHECKING:
    from tilelang.codegen.source import Source
    from tilelang.targets.backend import Backend
    from tilelang.targets.cpu.runtime.library import Entry
    from tilelang.targets.nvidia.runtime.device_code import DeviceCode


@record
class Family:
    """A family of targets.

    Attributes:
        kind: The `Target.kind` that it serves.
        module: Where its `BACKEND` is.
        build: Compiles source for a target by the compiler that an execution backend names, through the cache.
        identity: Names the toolchain and machine that `build` depends on, for cache keys, from the options and the
            execution backend; starts no process and opens no library when the answer is known.
    """

    kind: str
    module: str
    build: Callable[[Source, Target, CompileOptions, str], Entry | DeviceCode]
    identity: Callable[[CompileOptions, str], str]

    def backend(self) -> Backend:
        """The compiler proper."""
        backend: Backend = import_module(self.module).BACKEND
        return backend


def _for_host() -> Any:
    return import_module("tilelang.targets.cpu.runtime.host_compiler")


def _for_device() -> Any:
    return import_module("tilelang.targets.nvidia.runtime.device_code")


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "cpu": Family(
            "cpu",
            "tilelang.targets.cpu.backend",
            lambda source, target, options, compiler: _for_host().build(source, options),
            lambda options, compiler: _for_host().identity(options),
        ),
        "cuda": Family(
            "cuda",
            "tilelang.targets.nvidia.backend",
            lambda source, target, options, compiler: _for_device().build(source, target.arch, compiler, options),
            lambda options, compiler: _for_device().identity(compiler, options),
        ),
    }
)


def resolve(target: Target) -> Family:
    """The family of a target."""
    if target.kind not in FAMILIES:
        raise CompilerBug(f"target {target}: no backend")
    return FAMILIES[target.kind]
