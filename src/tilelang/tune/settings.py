"""The settings of a search, checked when they are given."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from tilelang.errors import OptionError
from tilelang.profile.inputs import TensorSupplyType
from tilelang.profile.timer import BACKENDS
from tilelang.records import record
from tilelang.tune.check import Tolerances


@record
class Settings:
    """The settings of a search; see `tilelang.autotune`."""

    warmup: float = 25
    rep: float = 100
    timeout: float = 100
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., Any] | None = None
    cache_input_tensors: bool = False
    backend: str = "event"
    early_stop: bool = True
    early_stop_factor: float = 2.0
    budget: float | None = None
    num_workers: int | None = None
    trials: int | None = 5
    executor: Executor | None = None
    decisions: str | Path | None = None

    @property
    def tolerances(self) -> Tolerances:
        """The tolerances of results."""
        return Tolerances(self.rtol, self.atol, self.max_mismatched_ratio)

    def __post_init__(self) -> None:
        positive = {"warmup": self.warmup, "rep": self.rep, "timeout": self.timeout}
        positive |= {n: v for n, v in (("budget", self.budget), ("num_workers", self.num_workers)) if v is not None}
        units = {"warmup": "milliseconds", "rep": "milliseconds", "num_workers": "processes"}
        for name, value in positive.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                unit = units.get(name, "seconds")
                raise OptionError(f"autotune: {name} must be a positive number of {unit}, got {value!r:.40}")
        if self.trials is not None and (not isinstance(self.trials, int) or self.trials < 1 or self.trials is True):
            raise OptionError(f"autotune: trials must be a positive number or None for all, got {self.trials!r:.40}")
        if self.executor is not None and not callable(getattr(self.executor, "submit", None)):
            raise OptionError(
                f"autotune: executor must be a concurrent.futures.Executor, got {self.executor!r:.40}",
                hint="write executor=dask.distributed.Client(...).get_executor()",
            )
        if not isinstance(self.early_stop, bool):
            raise OptionError(f"autotune: early_stop must be True or False, got {self.early_stop!r:.40}")
        factor = self.early_stop_factor
        if isinstance(factor, bool) or not isinstance(factor, int | float) or factor < 1:
            raise OptionError(f"autotune: early_stop_factor must be a number of at least 1, got {factor!r:.40}")
        for name in ("ref_prog", "supply_prog", "manual_check_prog"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise OptionError(f"autotune: {name} must be a function, got {getattr(self, name)!r:.40}")
        if self.backend not in BACKENDS:
            raise OptionError(f"autotune: unknown backend {self.backend!r}", hint=f"one of {', '.join(BACKENDS)}")
