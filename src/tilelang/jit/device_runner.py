"""Runs a kernel that is compiled for a GPU.

Construction needs no GPU and no driver; they are loaded by the first call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilelang.errors import Note, warn
from tilelang.ir.func import PrimFunc
from tilelang.ir.specialization import Specialization
from tilelang.jit.program import Program, compile_program
from tilelang.jit.runners import specialized
from tilelang.options import CompileOptions
from tilelang.runtime.parameters import Signature
from tilelang.runtime.variants import Variants
from tilelang.targets.gpu.runtime.device_code import DeviceCode
from tilelang.targets.target import Target

if TYPE_CHECKING:
    from tilelang.targets.gpu.runtime.device_call import DeviceCaller
    from tilelang.targets.gpu.runtime.device_program import DeviceProgram


_NAMED_FRAGMENTS = 4


class DeviceRunner:
    """A kernel compiled for a GPU.

    Attributes:
        call: Runs the kernel on the arguments of a call; another function after some calls.
        attempt: See `Runner`.
        program: The program for the usual calls, in which symbolic sizes divide evenly; others are compiled when a call
            needs them.
        code: Its machine code.
    """

    def __init__(
        self, func: PrimFunc, signature: Signature, target: Target, options: CompileOptions, compiler: str
    ) -> None:
        self._func, self._signature, self._target, self._options = func, signature, target, options
        self._compiler = compiler
        self._caller: DeviceCaller | None = None
        self._lock = threading.Lock()
        self.call: Callable[..., Any] = lambda *args: self.caller.call(*args)
        self.attempt: Callable[..., Any] | None = None
        self._most_common = Variants(signature).most_common
        self.program: Program | None = self._compiled(self._most_common)
        self.code: DeviceCode | None = _code_of(self.program)
        warn_of_losses(func, self.code)

    @property
    def caller(self) -> DeviceCaller:
        """The executor of calls."""
        with self._lock:
            if self._caller is None:
                runtime = self._target.family.device_runtime()
                self._caller = runtime.caller(self._signature, self._target.arch, self._variant, self._use)
                self.call = self._caller.call
            return self._caller

    def _use(self, call: Callable[..., Any], attempt: Callable[..., Any] | None) -> None:
        self.call, self.attempt = call, attempt  # attributes of its own: properties would cost a call

    def synchronize(self) -> None:  # noqa: D102  see `Runner`
        self.caller.synchronize()

    def _variant(self, specialization: Specialization) -> DeviceProgram:
        """The program of a specialization."""
        compiled = self.program if specialization == self._most_common else self._compiled(specialization)
        assert compiled is not None
        func = specialized(self._func, specialization)
        outputs = None if func.outputs else self._signature.outputs
        signature = Signature.of(func, outputs)
        program: DeviceProgram = self._target.family.device_runtime().program(signature, _code_of(compiled))
        return program

    def _compiled(self, specialization: Specialization) -> Program:
        func = specialized(self._func, specialization)
        return compile_program(func, self._target, self._options, self._compiler)


def warn_of_losses(func: PrimFunc, code: DeviceCode) -> None:
    """Warns of what the compiler had to do that makes kernels slow: it spilled registers, or serialized gemms."""
    for launch in code.source.launches:
        used = code.resources.get(launch.name)
        if used is not None and used.spill_bytes:
            largest = sorted(dict.fromkeys(launch.fragments), key=lambda fragment: -fragment[1])[:_NAMED_FRAGMENTS]
            held = ", ".join(f"'{name}' {size}" for name, size in largest)
            warn(
                f"kernel '{func.name}' spills registers: {used.local_bytes} bytes of each thread are in local memory, "
                f"which is slow, and its code stores and loads {used.spill_bytes} bytes there",
                func.loc,
                notes=(Note(f"bytes per thread of its fragments: {held}"),) if held else (),
                hint="use smaller tiles, more threads, or fewer live fragments",
            )
        if used is not None and used.serialized:
            warn(
                f"kernel '{func.name}' has matrix instructions that wait for each other, which is slow",
                func.loc,
                notes=tuple(Note(f"the compiler says: {text}") for text in code.warnings),
                hint="access a gemm's operands in registers only behind the wait for it, and by constant indices",
            )


def _code_of(program: Program) -> DeviceCode:
    assert isinstance(program.built, DeviceCode)
    return program.built
