"""A vendor's entry in the registry: names and machines of its targets, ways to run kernels, parts of the compiler.

Takes nothing; gives `Family`. Invariant: making the record loads no part of the compiler, and opens no library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from typing import Any

from tilelang.garbage_collector import disabled_for_imports
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.targets.gemm_tile import GemmTile
from tilelang.targets.machine import Machine

NATIVE = "native"  # the machine at hand

SIMULATOR: Mapping[str, str] = {"simulator": "'simulator' for the thread-level program on the CPU"}
REFERENCE: Mapping[str, str] = {"reference": "'reference' for the interpreter"}


@record
class Family:
    """A family of targets: the machines of one vendor.

    Attributes:
        kind: The `Target.kind` that it serves.
        published: What published TileLang calls the kind.
        title: What messages call its machines.
        keys: The groups of targets that it belongs to.
        aliases: Names that users write for it, the kind among them.
        nicknames: Names that users try; messages suggest the kind instead.
        prefix: What names of its machines begin with, if they are names of targets as well; else "".
        machines: Those that code can be compiled for, by name.
        default: The machine that is meant where none is named and no device is present, and that messages name.
        present: Gives the machine of the device at hand, or None without one.
        runs_on: Whether a machine runs code for another one: `runs_on(code_for, machine)`.
        execution_backends: The ways to run its kernels, the one that "auto" means first: each with its explanation, or
            "" where another one's names it as well.
        compiled_names: Names of published TileLang for ways to call compiled code, all of which mean the one there is.
        gemm_tiles: Gives candidate tiles on a machine for a gemm; takes its rows, or None if they are unknown.
        module: Where its `BACKEND` is.
        build: Compiles a `Source` for a `Target` by the compiler that an execution backend names, through the cache.
        identity: Names the toolchain and machine that `build` depends on, for cache keys, from the options and the
            execution backend; starts no process and opens no library when the answer is known.
        runtime: Where its `RUNTIME` is; empty for machines whose code the host itself runs.
        findings: Where the function `findings` is: what this machine has for its kernels; empty without one.
        products: The machines of devices by their names in lower case; messages suggest the machine instead.
        must_be_named: Whether a user must name a machine where no device is present, so that none is meant by default.
    """

    kind: str
    published: str
    title: str
    keys: tuple[str, ...]
    aliases: tuple[str, ...]
    nicknames: tuple[str, ...]
    prefix: str
    machines: dict[str, Machine]
    default: str
    present: Callable[[], str | None]
    runs_on: Callable[[Machine, Machine], bool]
    execution_backends: Mapping[str, str]
    compiled_names: tuple[str, ...]
    gemm_tiles: Callable[[Machine, int | None], Sequence[GemmTile]]
    module: str
    build: Callable[[Any, Any, CompileOptions, str], Any]
    identity: Callable[[CompileOptions, str], str]
    runtime: str = ""
    findings: str = ""
    products: Mapping[str, str] = field(default_factory=dict)
    must_be_named: bool = False

    @property
    def is_gpu(self) -> bool:
        """Whether its machines run blocks of threads."""
        return "gpu" in self.keys

    @property
    def example(self) -> dict[str, str]:
        """A mapping that means one of its targets."""
        return {"kind": self.kind} if self.default == NATIVE else {"kind": self.kind, "arch": self.default}

    @property
    def default_execution_backend(self) -> str:
        """The way to run kernels that "auto" means."""
        return next(iter(self.execution_backends))

    def backend(self) -> Any:
        """The compiler proper: a `targets.backend.Backend`."""
        found = getattr(sys.modules.get(self.module), "BACKEND", None)  # None while another thread imports the module
        if found is None:
            with disabled_for_imports():
                found = import_module(self.module).BACKEND
        return found

    def device_runtime(self) -> Any:
        """The runtime of its devices: a `targets.gpu.runtime.device_runtime.DeviceRuntime`."""
        return import_module(self.runtime).RUNTIME

    def found(self) -> list[Any]:
        """The components that this machine has for its kernels, each a `runtime.finding.Finding`."""
        return list(import_module(self.findings).findings()) if self.findings else []
