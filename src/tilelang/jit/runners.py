"""The ways a kernel runs: compiled for the host, compiled for a GPU, simulated, or interpreted.

Takes a function, a signature and what it is compiled with; gives a `Runner`. Invariant: a call that raises
`ArgumentError` has run nothing, whichever way it goes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

from tilelang.errors import NOWHERE, DeviceAssertError, ResourceError
from tilelang.ir.facts import Facts
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.jit.program import Program, check, compile_program
from tilelang.options import CompileOptions
from tilelang.runtime.arguments import Bound, bind
from tilelang.runtime.arrays import ArrayView
from tilelang.runtime.device_call import DeviceCaller
from tilelang.runtime.device_code import DeviceCode
from tilelang.runtime.device_program import DeviceProgram
from tilelang.runtime.failures import FAILURES
from tilelang.runtime.fast_call import call_text, make_fast_call
from tilelang.runtime.library import FLOAT, INTEGER, POINTER, Entry
from tilelang.runtime.parameters import Signature
from tilelang.target import Target

_SIMULATOR = "tilelang.jit.simulator_runner"
_REFERENCE = "tilelang.sim.tile_interp"
_SPECIALIZE = "tilelang.passes.tile.specialize_symbols"


class Runner(Protocol):
    """A way to run a kernel.

    Attributes:
        program: What was compiled; None if nothing was.
    """

    program: Program | None

    @property
    def call(self) -> Callable[..., Any]:
        """Runs the kernel on the arguments of a call; may be another function after a call."""

    def host_source(self) -> str:
        """The text of the function that checks arguments at a glance and launches; empty if there is none."""


class HostRunner:
    """A kernel compiled for the host's processor."""

    def __init__(self, func: PrimFunc, signature: Signature, target: Target, options: CompileOptions) -> None:
        self.func, self.signature = func, signature
        self.program: Program | None = compile_program(func, target, options, "cc")
        entry = self.program.built
        assert isinstance(entry, Entry)
        kinds = [_c_type(param) for param in func.params] + [INTEGER] * len(signature.symbols)
        self._entry = entry.typed(kinds)
        self.call, self._knows_torch = self._make_call()

    def host_source(self) -> str:  # noqa: D102  see `Runner`
        return call_text(self.signature)

    def _make_call(self) -> tuple[Callable[..., Any], bool]:
        return make_fast_call(self.signature, self._entry, self._long_way, self._fail), "torch" in sys.modules

    def _long_way(self, args: Sequence[Any]) -> Any:
        if not self._knows_torch and "torch" in sys.modules:
            self.call, self._knows_torch = self._make_call()
        bound = bind(self.signature, args)
        status = self._entry(*bound.c_arguments())
        if status:
            self._fail(status)
        return bound.result()

    def _fail(self, status: int) -> None:
        """Raises for the entry's answer that something went wrong."""
        assert self.program is not None
        asserts = self.program.source.asserts
        if 0 < status <= len(asserts):
            message, loc = asserts[status - 1]
            raise DeviceAssertError(message or "assertion failed", loc=loc if loc is not NOWHERE else None)
        raise ResourceError(
            f"{self.func.name}: not enough memory for the tiles of its blocks and its T.alloc_global workspaces",
            loc=self.func.loc,
            hint="allocate smaller tiles, or run fewer threads with TILELANG_NUM_THREADS",
        )


class DeviceRunner:
    """A kernel compiled for a GPU; made without one, called with one.

    Attributes:
        caller: What calls do.
        program: The program for the usual calls, in which symbolic sizes divide evenly; others are compiled when a call
            needs them.
        code: Its machine code.
    """

    def __init__(
        self, func: PrimFunc, signature: Signature, target: Target, options: CompileOptions, compiler: str
    ) -> None:
        self._func, self._signature, self._target, self._options = func, signature, target, options
        self._compiler = compiler
        self.caller = DeviceCaller(signature, target.arch, self._variant, changed=self._use)
        self.call = self.caller.call
        self.program: Program | None = compile_program(
            specialized(func, self.caller.variants.usual), target, options, compiler
        )
        code = self.program.built
        assert isinstance(code, DeviceCode)
        self.code = code

    def _use(self, call: Callable[..., Any]) -> None:
        self.call = call  # an attribute of its own: a property would cost a call

    def host_source(self) -> str:  # noqa: D102  see `Runner`
        return self.caller.host_source()

    def _variant(self, facts: Facts) -> DeviceProgram:
        """The program for calls of which these facts hold."""
        func = specialized(self._func, facts)
        code = compile_program(func, self._target, self._options, self._compiler).built
        assert isinstance(code, DeviceCode)
        return DeviceProgram(Signature.of(func, self._signature.outputs), code, FAILURES)


class ReferenceRunner:
    """The reference interpreter."""

    program: Program | None = None

    def __init__(self, func: PrimFunc, signature: Signature, target: Target, options: CompileOptions) -> None:
        check(func, target, options)  # all ways of running refuse the same programs
        self._func, self._signature = func, signature

    def call(self, *args: Any) -> Any:  # noqa: D102  see `Runner`
        bound = bind(self._signature, args)
        import_module(_REFERENCE).run_reference(self._func, host_values(bound))
        return bound.result()

    def host_source(self) -> str:  # noqa: D102  see `Runner`
        return ""


def make_runner(
    func: PrimFunc, signature: Signature, target: Target, options: CompileOptions, execution_backend: str
) -> Runner:
    """The way to run that an execution backend names."""
    match execution_backend:
        case "cc":
            return HostRunner(func, signature, target, options)
        case "simulator":
            runner: Runner = simulator_runner(func, signature, target, options)
            return runner
        case "reference":
            return ReferenceRunner(func, signature, target, options)
    return DeviceRunner(func, signature, target, options, execution_backend)


def specialized(func: PrimFunc, facts: Facts) -> PrimFunc:
    """The function for calls of which these facts hold."""
    if facts == Facts():
        return func
    result: PrimFunc = import_module(_SPECIALIZE).specialize(func, facts)
    return result


def simulator_runner(func: PrimFunc, signature: Signature, target: Target, options: CompileOptions) -> Any:
    """The way to run on the simulator, which is loaded when it is first asked for."""
    return import_module(_SIMULATOR).SimulatorRunner(func, signature, target, options)


def host_values(bound: Bound) -> list[Any]:
    """The values of a call for an interpreter: NumPy arrays and numbers."""
    return [value.as_numpy() if isinstance(value, ArrayView) else value for value in bound.values]


def _c_type(param: Param) -> type:
    if isinstance(param, TensorParam):
        return POINTER
    assert isinstance(param, ScalarParam)
    return FLOAT if param.dtype.is_float else INTEGER
