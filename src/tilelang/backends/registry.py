"""Which families of targets there are: who turns a program into source, and who turns source into a kernel.

Invariant: what is needed to run a kernel that was compiled before is at hand; the compiler proper (passes, lowerings,
printers) is loaded when the first program has to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

from tilelang.backends.backend import Backend
from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug
from tilelang.options import CompileOptions
from tilelang.runtime import device_code, host_compiler
from tilelang.runtime.device_code import DeviceCode
from tilelang.runtime.library import Entry
from tilelang.target import Target


@dataclass(frozen=True)
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
        backend = import_module(self.module).BACKEND
        if not isinstance(backend, Backend):
            raise CompilerBug(f"{self.module}: BACKEND is no Backend")
        return backend


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "cpu": Family(
            "cpu",
            "tilelang.backends.cpu",
            lambda source, target, options, compiler: host_compiler.build(source, options),
            lambda options, compiler: host_compiler.identity(options),
        ),
        "cuda": Family(
            "cuda",
            "tilelang.backends.cuda",
            lambda source, target, options, compiler: device_code.build(source, target.arch, compiler, options),
            lambda options, compiler: device_code.identity(compiler, options),
        ),
    }
)


def resolve(target: Target) -> Family:
    """The family of a target."""
    if target.kind not in FAMILIES:
        raise CompilerBug(f"target {target}: no backend")
    return FAMILIES[target.kind]
