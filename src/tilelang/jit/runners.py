"""Runners of kernels: compiled for the host, compiled for a GPU, simulated, or interpreted.

Runners are imported at first use. Invariant: a call that raises `ArgumentError` has run nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from tilelang.ir.func import PrimFunc
from tilelang.ir.specialization import Specialization
from tilelang.jit.program import Program
from tilelang.options import CompileOptions
from tilelang.runtime.parameters import Signature
from tilelang.targets.target import Target

if TYPE_CHECKING:
    from tilelang.targets.gpu.runtime.device_code import DeviceCode

_SPECIALIZE = "tilelang.transforms.specialize_symbols"


class Runner(Protocol):
    """Runs a kernel.

    Attributes:
        program: The compiled program, if any.
        code: Its machine code, if it is for a GPU.
        attempt: Like `call`, but returns `MISSED` and runs nothing if the fast checks do not accept the arguments; None
            without fast checks. May be another function after a call.
    """

    program: Program | None
    code: DeviceCode | None
    attempt: Callable[..., Any] | None

    @property
    def call(self) -> Callable[..., Any]:
        """Runs the kernel on the arguments of a call; may be another function after a call."""

    def synchronize(self) -> None:
        """Waits for launched kernels."""


def make_runner(
    func: PrimFunc, signature: Signature, target: Target, options: CompileOptions, execution_backend: str
) -> Runner:
    """The runner of an execution backend."""
    runner: Runner
    match execution_backend:
        case "cc":
            runner = import_module("tilelang.jit.host_runner").HostRunner(func, signature, target, options)
        case "simulator":
            runner = simulator_runner(func, signature, target, options)
        case "reference":
            runner = import_module("tilelang.jit.reference_runner").ReferenceRunner(func, signature, target, options)
        case compiler:
            module = import_module("tilelang.jit.device_runner")
            runner = module.DeviceRunner(func, signature, target, options, compiler)
    return runner


def simulator_runner(func: PrimFunc, signature: Signature, target: Target, options: CompileOptions) -> Any:
    """The runner on the simulator."""
    return import_module("tilelang.jit.simulator_runner").SimulatorRunner(func, signature, target, options)


def specialized(func: PrimFunc, specialization: Specialization) -> PrimFunc:
    """The function specialized for some calls."""
    if specialization == Specialization():
        return func
    result: PrimFunc = import_module(_SPECIALIZE).specialize(func, specialization)
    return result
