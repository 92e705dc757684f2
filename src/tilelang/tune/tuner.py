"""`AutoTuner`: the step-by-step interface of the autotuner; used by `@tilelang.autotune`.

Invariant: the resulting kernel has run on the current device, with correct results, and was the fastest.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from typing import Any

from tilelang.api import public
from tilelang.errors import OptionError, TuningSubjectError
from tilelang.jit.decorator import JitFunction
from tilelang.jit.eager import EagerFunction
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import JitOptions
from tilelang.runtime.parameters import OutIdx, Signature
from tilelang.targets.target import TargetLike
from tilelang.tune.decisions import Decision
from tilelang.tune.device import check_can_measure
from tilelang.tune.gemm_space import default_configs
from tilelang.tune.inputs import get_autotune_inputs, refuse_scalars
from tilelang.tune.records import Record
from tilelang.tune.result import Measurement, TuningResult
from tilelang.tune.search import search
from tilelang.tune.settings import Settings
from tilelang.tune.space import Config, Configs, configurations
from tilelang.tune.subject import Jitted, Subject


@public
class AutoTuner:
    """Tunes a function that makes kernels.

    Args:
        fn: The function: one marked `@tilelang.jit`, or one that returns a prim_func.
        configs: The configurations, as for `tilelang.autotune`.

    Raises:
        TuningSubjectError: What is given is no function.

    Example:
        `AutoTuner.from_kernel(matmul, configs).set_compile_args(out_idx=[-1]).set_profile_args(ref_prog=ref).run()`
    """

    def __init__(self, fn: Any, configs: Configs | None = None) -> None:
        if not isinstance(fn, JitFunction | EagerFunction):
            if not inspect.isfunction(fn):
                raise TuningSubjectError(
                    f"AutoTuner needs a function that makes kernels, got {type(fn).__name__}",
                    hint="pass a function marked @tilelang.jit, or one that returns a prim_func",
                )
            fn = JitFunction(fn, JitOptions())
        self._jitted: Jitted = fn
        self._configs = configs
        self._settings = Settings()
        self._call: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self._result: TuningResult | None = None

    @classmethod
    def from_kernel(cls, kernel: Any, configs: Configs | None = None) -> AutoTuner:
        """The same as `AutoTuner(kernel, configs)`."""
        return cls(kernel, configs)

    def set_compile_args(
        self,
        out_idx: OutIdx = None,
        target: TargetLike = None,
        execution_backend: str | None = None,
        target_host: object = None,
        verbose: bool | None = None,
        pass_configs: Mapping[str, object] | None = None,
        compile_flags: str | Sequence[str] | None = None,
    ) -> AutoTuner:
        """Sets compile options, as for `tilelang.compile`; `target_host` is accepted as published."""
        del target_host
        options = JitOptions(out_idx, target, execution_backend, pass_configs, compile_flags, verbose)
        self._jitted = type(self._jitted)(self._jitted.func, options)
        return self

    def set_profile_args(self, *values: Any, **options: Any) -> AutoTuner:
        """Sets options of checks and measurements.

        Args:
            values: Options in the order of `tilelang.autotune`, from `warmup` on.
            options: Options of `tilelang.autotune` by name.

        Raises:
            OptionError: There is no such option, a number is out of range, or what should be a function is none.
        """
        known = [field.name for field in fields(Settings)]
        for name in options.keys() - known:
            raise OptionError(f"set_profile_args: no option {name!r}", hint=f"there are {', '.join(known)}")
        self._settings = Settings(*values, **options)
        return self

    def set_kernel_parameters(self, *args: Any, **keywords: Any) -> AutoTuner:
        """Sets the arguments with which the function is called, besides tunables."""
        self._call = args, keywords
        return self

    def run(
        self,
        warmup: float | None = None,
        rep: float | None = None,
        timeout: float | None = None,
        use_pipeline: bool | None = None,
        enable_grouped_compile: bool | None = None,
        group_compile_size: int | None = None,
        benchmark_devices: Sequence[int] | None = None,
        benchmark_multi_gpu: bool | None = None,
        early_stop: bool | None = None,
        early_stop_factor: float | None = None,
        *,
        budget: float | None = None,
    ) -> TuningResult:
        """Searches, or loads the result of an earlier search.

        Args:
            warmup: Instead of what `set_profile_args` said; the others as well.
            rep: See `tilelang.autotune`.
            timeout: See `tilelang.autotune`.
            use_pipeline: Accepted as published; compilation and measurement do not overlap.
            enable_grouped_compile: Accepted as published; configurations are compiled one by one, many at once.
            group_compile_size: As above.
            benchmark_devices: Accepted as published; kernels are measured on the current device.
            benchmark_multi_gpu: As above.
            early_stop: See `tilelang.autotune`.
            early_stop_factor: See `tilelang.autotune`.
            budget: See `tilelang.autotune`.

        Raises:
            TuningError: No configuration can be used; notes say why.
            OptionError: The configurations or the execution backend cannot be used.
            ArgumentError: The function lacks arguments, or its kernels take scalars that cannot be made up.
        """
        del use_pipeline, enable_grouped_compile, group_compile_size, benchmark_devices, benchmark_multi_gpu
        given: dict[str, Any] = {"warmup": warmup, "rep": rep, "timeout": timeout, "budget": budget}
        given |= {"early_stop": early_stop, "early_stop_factor": early_stop_factor}
        settings = replace(self._settings, **{k: v for k, v in given.items() if v is not None})
        args, keywords = self._call
        if isinstance(self._jitted, EagerFunction) and not args and not keywords:
            args = get_autotune_inputs() or ()
        self._result = tune(Subject(self._jitted, args, keywords), self._configs, settings)
        return self._result

    def __call__(self) -> TuningResult:
        """The same as `run()`."""
        return self.run()

    def report(self) -> str:
        """The result of the last search: the time of each configuration, or the reason of its rejection.

        Raises:
            OptionError: Nothing was searched yet.
        """
        if self._result is None:
            raise OptionError("AutoTuner.report: nothing has been tuned yet", hint="call run() first")
        return self._result.report()


def tune(subject: Subject, configs: Configs | None, settings: Settings) -> TuningResult:
    """Searches, or loads the result of an earlier search.

    Args:
        subject: What to tune.
        configs: The configurations; the default ones for its tunables without it.
        settings: How to search.

    Raises:
        TuningError: No configuration can be used.
        ArgumentError: Kernels take scalars, which cannot be made up.
    """
    rows = configurations(default_configs(subject) if configs is None else configs, subject)
    subject.check_call(rows[0])
    _check_inputs(subject, rows[0], settings)
    if settings.executor is None:
        check_can_measure(subject.name, subject.target, subject.execution_backend)
    record = Record(subject, rows, settings)
    found = record.load()
    kernel = None if found is None else _recompile(subject, found.measured[0].config)
    reloaded = kernel is not None
    if found is None or kernel is None:
        found, kernel = search(subject, rows, settings)
        record.save(found)
    best = found.measured[0]
    kernel = copy(kernel)  # the cached kernel of this configuration stays without measurements
    kernel.config, kernel.latency, kernel.ref_latency = best.config, best.latency, found.ref_latency
    facts = {field.name: getattr(found, field.name) for field in fields(found)}
    return TuningResult(**facts, kernel=kernel, reloaded=reloaded)


def decided_result(subject: Subject, decision: Decision) -> TuningResult:
    """The result of the search whose decision a file holds, with the kernel of its configuration."""
    config = dict(decision.config)
    kernel = copy(subject.kernel(config))
    kernel.config, kernel.latency = config, decision.milliseconds
    measured = (Measurement(config, decision.milliseconds, 1.0, 0),)
    return TuningResult(subject.name, decision.device, measured, (), kernel=kernel, reloaded=True)


def _recompile(subject: Subject, config: Config) -> JITKernel | None:
    """The kernel of a configuration that was found before; None if it does not compile any more."""
    try:
        return subject.kernel(config)
    except Exception:  # reported by the search
        return None


def _check_inputs(subject: Subject, config: Config, settings: Settings) -> None:
    """Raises for kernels with scalar parameters whose arguments are not supplied, before anything is compiled."""
    if subject.is_eager or settings.supply_prog is not None or get_autotune_inputs() is not None:
        return
    try:
        func = subject.program(config)
        signature = Signature.of(func, subject.jitted.options.out_idx)
    except Exception:  # reported by the search
        return
    refuse_scalars(subject.name, signature)
