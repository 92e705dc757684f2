"""Options of tuners as plain records: `tilelang.autotuner.param`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.api import public
from tilelang.ir.func import PrimFunc
from tilelang.jit.compile import compile
from tilelang.jit.kernel import JITKernel
from tilelang.profile.inputs import TensorSupplyType
from tilelang.runtime.parameters import OutIdx
from tilelang.targets.target import TargetLike


@public
@dataclass(frozen=True)
class CompileArgs:
    """Compile options, as for `AutoTuner.set_compile_args`."""

    out_idx: OutIdx = None
    execution_backend: str | None = "auto"
    target: TargetLike = "auto"
    target_host: object = None
    verbose: bool = False
    pass_configs: Mapping[str, object] | None = None

    def compile_program(self, program: PrimFunc) -> JITKernel:
        """A kernel compiled with these options."""
        return compile(
            program,
            out_idx=self.out_idx,
            execution_backend=self.execution_backend,
            target=self.target,
            verbose=self.verbose,
            pass_configs=self.pass_configs,
        )


@public
@dataclass(frozen=True)
class ProfileArgs:
    """Options of checks and measurements, as for `AutoTuner.set_profile_args`."""

    warmup: float = 25
    rep: float = 100
    timeout: float = 30
    backend: str = "event"
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., Any] | None = None
    cache_input_tensors: bool = True
