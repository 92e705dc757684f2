"""Runs a kernel on the simulator; a module of its own, since the simulator is loaded only by those who ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.ir.func import PrimFunc
from tilelang.jit.program import Program, lowered
from tilelang.jit.runners import host_values
from tilelang.options import CompileOptions
from tilelang.runtime.arguments import bind
from tilelang.runtime.parameters import Signature
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.target import Target


class SimulatorRunner:
    """A GPU's thread-level program, run on the host with all the simulator's checks."""

    program: Program | None = None

    def __init__(self, func: PrimFunc, signature: Signature, target: Target, options: CompileOptions) -> None:
        self._signature, self._target = signature, target
        self._lowered = lowered(func, target, options)

    def call(self, *args: Any) -> Any:  # noqa: D102  see `Runner`
        return self.simulate(args)

    def host_source(self) -> str:  # noqa: D102  see `Runner`
        return ""

    def simulate(
        self, args: Sequence[Any], *, lazy: bool = True, seed: int = 0, counters: Counters | None = None
    ) -> Any:
        """Runs the kernel on host arrays; see `tilelang.sim.run.simulate`."""
        bound = bind(self._signature, args)
        simulate(self._lowered, host_values(bound), target=self._target, lazy=lazy, seed=seed, report=counters)
        return bound.result()
