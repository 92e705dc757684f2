"""Runs a kernel on the simulator; a separate module, since it imports the simulator.

Invariant: the simulated program is the one that the device would run for arguments of these sizes and alignments,
independent of where the host allocated the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilelang.analysis.dropped_stores import warn_of_dropped_stores
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var
from tilelang.ir.func import PrimFunc, ScalarParam, TensorParam
from tilelang.ir.specialization import Specialization
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.jit.program import Program, lowered
from tilelang.jit.runners import specialized
from tilelang.options import CompileOptions
from tilelang.runtime.arguments import Bound, bind
from tilelang.runtime.arrays import ArrayView
from tilelang.runtime.parameters import Signature
from tilelang.runtime.variants import ALIGNMENT_BYTES, Variants
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.gpu.runtime.device_code import DeviceCode
from tilelang.targets.target import Target


class SimulatorRunner:
    """A GPU's thread-level program, run on the host with all checks of the simulator."""

    program: Program | None = None
    code: DeviceCode | None = None
    attempt: Callable[..., Any] | None = None

    def __init__(self, func: PrimFunc, signature: Signature, target: Target, options: CompileOptions) -> None:
        self._func, self._signature, self._target, self._options = func, signature, target, options
        self._variants = Variants(signature)
        self._programs: dict[Specialization, PrimFunc] = {}
        self._program(self._variants.most_common)  # what cannot be compiled is refused at once

    def call(self, *args: Any) -> Any:  # noqa: D102  see `Runner`
        return self.simulate(args)

    def synchronize(self) -> None:
        """Nothing to wait for: a call returns when it is done."""

    def simulate(
        self, args: Sequence[Any], *, lazy: bool = True, seed: int = 0, counters: Counters | None = None
    ) -> Any:
        """Runs the kernel on host arrays; see `tilelang.sim.run.simulate`."""
        bound = bind(self._signature, args)
        warn_of_dropped_stores(self._func, dict(zip(self._func.symbols, bound.symbols, strict=True)))
        program = self._chosen(bound)
        values = [_placed(value) if isinstance(value, ArrayView) else value for value in bound.values]
        try:
            simulate(program, values, target=self._target, lazy=lazy, seed=seed, report=counters)
        finally:
            for index in self._signature.written:
                view = bound.values[index]
                if isinstance(view, ArrayView):
                    view.as_numpy()[...] = values[index]
        return bound.result()

    def _chosen(self, bound: Bound) -> PrimFunc:
        """The program for a call, with maps only of tensors that can have them."""
        spec = self._variants.of(bound.values, bound.symbols)
        program = self._program(spec)
        while not (refused := _without_map(self._signature, program, spec, bound)) <= set(spec.misaligned):
            spec = self._variants.without_maps(spec, refused)
            program = self._program(spec)
        return program

    def _program(self, spec: Specialization) -> PrimFunc:
        if spec not in self._programs:
            self._programs[spec] = lowered(specialized(self._func, spec), self._target, self._options)
        return self._programs[spec]


def _without_map(signature: Signature, program: PrimFunc, spec: Specialization, bound: Bound) -> set[str]:
    """The names of tensors with a map in the program that cannot have one in this call."""
    factors = dict(spec.multiples)
    env: dict[Var, Any] = {
        symbol: value // factors.get(general.name, 1)
        for general, symbol, value in zip(signature.symbols, program.symbols, bound.symbols, strict=True)
    }
    env |= {p.var: v for p, v in zip(program.params, bound.values, strict=True) if isinstance(p, ScalarParam)}
    values = {p.buffer: v for p, v in zip(program.params, bound.values, strict=True) if isinstance(p, TensorParam)}
    found = set()
    for launch in (stmt for stmt in walk(program.body) if isinstance(stmt, Launch)):
        for one in launch.plan.tensor_maps:
            if one.tensor.storage not in values:  # a workspace
                continue
            dims, strides = ([int(evaluate(e, env)) for e in exprs] for exprs in (one.dims, one.strides))
            view = values[one.tensor.storage]
            assert isinstance(view, ArrayView)
            if one.fault(dims, strides, view.pointer):
                found.add(one.tensor.storage.name)
    return found


def _placed(view: ArrayView) -> np.ndarray:
    """A copy of an array with the same address modulo 16 bytes."""
    array = view.as_numpy()
    steps = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    before = -sum(min(step, 0) for step in steps) if array.size else 0
    after = sum(max(step, 0) for step in steps) + array.itemsize if array.size else 0
    offset = before + -before % ALIGNMENT_BYTES + view.pointer % ALIGNMENT_BYTES
    copy: np.ndarray = np.ndarray(
        array.shape, array.dtype, np.zeros(offset + after, np.uint8), offset, array.strides
    )
    copy[...] = array
    return copy
