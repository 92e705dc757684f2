"""Runs a kernel that is compiled for the host's processor.

Takes the arguments of a call, gives what it returns. Invariant: nothing runs before all arguments are accepted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.errors import NOWHERE, DeviceAssertError, ResourceError
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.jit.program import Program, compile_program
from tilelang.options import CompileOptions
from tilelang.runtime.arguments import bind
from tilelang.runtime.call_text import attempt_of
from tilelang.runtime.parameters import Signature
from tilelang.targets.cpu.runtime.fast_call import call_text, make_fast_call
from tilelang.targets.cpu.runtime.library import FLOAT, INTEGER, POINTER, Entry
from tilelang.targets.target import Target

if TYPE_CHECKING:
    from tilelang.targets.nvidia.runtime.device_code import DeviceCode


class HostRunner:
    """A kernel compiled for the host's processor."""

    code: DeviceCode | None = None

    def __init__(self, func: PrimFunc, signature: Signature, target: Target, options: CompileOptions) -> None:
        self.func, self.signature = func, signature
        self.program: Program | None = compile_program(func, target, options, "cc")
        entry = self.program.built
        assert isinstance(entry, Entry)
        kinds = [_c_type(param) for param in func.params] + [INTEGER] * len(signature.symbols)
        self._entry = entry.typed(kinds)
        self._make_call()

    def host_source(self) -> str:  # noqa: D102  see `Runner`
        return call_text(self.signature)

    def synchronize(self) -> None:
        """Nothing to wait for: a call returns when it is done."""

    def _make_call(self) -> None:
        self._knows_torch = "torch" in sys.modules
        self.call = make_fast_call(self.signature, self._entry, self._long_way, self._fail)
        self.attempt: Callable[..., Any] | None = attempt_of(self.call)

    def _long_way(self, args: Sequence[Any]) -> Any:
        if not self._knows_torch and "torch" in sys.modules:
            self._make_call()
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


def _c_type(param: Param) -> type:
    if isinstance(param, TensorParam):
        return POINTER
    assert isinstance(param, ScalarParam)
    return FLOAT if param.dtype.is_float else INTEGER
