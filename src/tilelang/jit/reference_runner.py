"""Runs a kernel by the reference interpreter, on host arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.analysis.dropped_stores import warn_of_dropped_stores
from tilelang.ir.func import PrimFunc
from tilelang.jit.program import Program, check, with_semantic_options
from tilelang.options import CompileOptions
from tilelang.runtime.arguments import Bound, bind
from tilelang.runtime.arrays import ArrayView
from tilelang.runtime.parameters import Signature
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.gpu.runtime.device_code import DeviceCode
from tilelang.targets.target import Target


class ReferenceRunner:
    """The reference interpreter."""

    program: Program | None = None
    code: DeviceCode | None = None
    attempt: Callable[..., Any] | None = None

    def __init__(self, func: PrimFunc, signature: Signature, target: Target, options: CompileOptions) -> None:
        check(func, target, options)  # all ways of running refuse the same programs
        self._func, self._signature = with_semantic_options(func, target, options), signature

    def call(self, *args: Any) -> Any:  # noqa: D102  see `Runner`
        bound = bind(self._signature, args)
        warn_of_dropped_stores(self._func, dict(zip(self._func.symbols, bound.symbols, strict=True)))
        run_reference(self._func, host_values(bound))
        return bound.result()

    def synchronize(self) -> None:
        """Nothing to wait for: a call returns when it is done."""


def host_values(bound: Bound) -> list[Any]:
    """The values of a call for an interpreter: NumPy arrays and numbers."""
    return [value.as_numpy() if isinstance(value, ArrayView) else value for value in bound.values]
