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
from tilelang.runtime import host_compiler
from tilelang.runtime.library import Entry
from tilelang.target import Target


@dataclass(frozen=True)
class Family:
    """A family of targets.

    Attributes:
        kind: The `Target.kind` that it serves.
        module: Where its `BACKEND` is.
        build: Makes source callable, through the cache.
        identity: Names the toolchain and machine that `build` depends on, for cache keys; starts no process when the
            answer is known on disk.
    """

    kind: str
    module: str
    build: Callable[[Source, CompileOptions], Entry]
    identity: Callable[[CompileOptions], str]

    def backend(self) -> Backend:
        """The compiler proper."""
        backend = import_module(self.module).BACKEND
        if not isinstance(backend, Backend):
            raise CompilerBug(f"{self.module}: BACKEND is no Backend")
        return backend


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {"cpu": Family("cpu", "tilelang.backends.cpu", host_compiler.build, host_compiler.identity)}
)


def resolve(target: Target) -> Family:
    """The family of a target."""
    if target.kind not in FAMILIES:
        raise CompilerBug(f"target {target}: no backend")
    return FAMILIES[target.kind]
