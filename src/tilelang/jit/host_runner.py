"""Runs a kernel that is compiled for the CPU.

Invariant: nothing runs before all arguments are accepted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.errors import NOWHERE, DeviceAssertError, ResourceError
from tilelang.ir.func import PrimFunc
from tilelang.jit.program import Program, compile_program
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.runtime.argument_specs import Kind
from tilelang.runtime.argument_table import ArgumentTable, Match
from tilelang.runtime.arguments import Bound, bind
from tilelang.runtime.arrays import Allocation, ArrayView, borrow, host_allocation
from tilelang.runtime.checker import Checker
from tilelang.runtime.fast_path import FastPath
from tilelang.runtime.native_call import NativePlan
from tilelang.runtime.parameters import Signature
from tilelang.targets.cpu.runtime.checker_builder import BUILDER
from tilelang.targets.cpu.runtime.library import Entry
from tilelang.targets.target import Target

if TYPE_CHECKING:
    from tilelang.targets.gpu.runtime.device_code import DeviceCode


class HostRunner:
    """A kernel compiled for the CPU.

    Attributes:
        call: Runs the kernel on the arguments of a call; another function after some calls.
        attempt: See `Runner`.
    """

    code: DeviceCode | None = None

    def __init__(self, func: PrimFunc, signature: Signature, target: Target, options: CompileOptions) -> None:
        self.func, self.signature = func, signature
        self.program: Program | None = compile_program(func, target, options, "cc")
        assert isinstance(self.program.built, Entry)
        self.entry = self.program.built
        letters = [_LETTERS.get(spec.kind, "q") for spec in signature.specs] + ["q"] * len(signature.symbols)
        self.layout = struct.Struct(f"<{''.join(letters)}")
        self._fast_path = FastPath(ArgumentTable(signature), self._slow_path, BUILDER, self._use)
        self.call: Callable[..., Any] = lambda *args: self._slow_path(args)
        self.attempt: Callable[..., Any] | None = None

    def synchronize(self) -> None:
        """Nothing to wait for: a call returns when it is done."""

    def _use(self, call: Callable[..., Any], attempt: Callable[..., Any] | None) -> None:
        self.call, self.attempt = call, attempt

    def _slow_path(self, args: Sequence[Any]) -> Any:
        bound = bind(self.signature, args)
        self.start(bound.c_arguments())
        result = bound.result()
        outputs = () if bound.outputs_given else _allocations(self.signature, bound)
        self._fast_path.add_plan(bound, _Plan(self, tuple(bound.symbols), outputs))
        return result

    def start(self, values: Sequence[int | float]) -> None:
        """Runs the entry on checked addresses and numbers."""
        status = self.entry.start(self.layout.pack(*values))
        if status:
            self.fail(status)

    def fail(self, status: int) -> None:
        """Raises for an error status of the entry.

        Raises:
            DeviceAssertError: An assertion of the kernel has failed.
            ResourceError: There is no memory for what it allocates.
        """
        assert self.program is not None
        asserts = self.program.source.asserts
        if 0 < status <= len(asserts):
            message, loc, hint = asserts[status - 1]
            raise DeviceAssertError(message or "assertion failed", loc=loc if loc is not NOWHERE else None, hint=hint)
        raise ResourceError(
            f"{self.func.name}: not enough memory for the tiles of its blocks and its T.alloc_global workspaces",
            loc=self.func.loc,
            hint="allocate smaller tiles, or run fewer threads with TILELANG_NUM_THREADS",
        )


_LETTERS = {Kind.FLOAT: "d", Kind.UNSIGNED: "Q", Kind.POINTER: "Q"}  # of `struct`


@record
class _Plan:
    """The plan of calls with the same sizes.

    Attributes:
        runner: Whose kernel it is.
        symbols: Their values.
        outputs: How they are made, in the order of return; none if a call passes them.
    """

    runner: HostRunner
    symbols: tuple[int, ...]
    outputs: tuple[Allocation, ...]

    def start(self, match: Match) -> Any:
        """See `fast_path.Plan`."""
        arrays = [output.make() for output in self.outputs]
        for index, array in zip(self.runner.signature.outputs, arrays, strict=False):
            view = borrow(array)
            assert view is not None
            match.values[index] = view.pointer
        self.runner.start([*match.values, *self.symbols])
        return None if not arrays else arrays[0] if len(arrays) == 1 else arrays

    def native(self, checker: Checker) -> NativePlan:
        """See `fast_path.Plan`."""
        del checker  # the entry's own function is all that it takes
        return NativePlan(self.runner.entry.address, 0, self.runner.fail, self.symbols, self.outputs)


def _allocations(signature: Signature, bound: Bound) -> tuple[Allocation, ...]:
    """The allocations of outputs like those of a bound call."""
    allocations = []
    for index in signature.outputs:
        view = bound.values[index]
        assert isinstance(view, ArrayView)
        allocations.append(host_allocation(bound.like, view.shape, signature.params[index].dtype))
    return tuple(allocations)
