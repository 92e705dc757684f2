"""`@tilelang.autotune`: a function marked `@tilelang.jit` whose tunables are tuned.

Invariant: equal calls are tuned once, in all threads; a call that gives a tunable is not tuned unless another tunable
has no value.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from copy import copy
from pathlib import Path
from typing import Any

from tilelang.api import public
from tilelang.errors import OptionError
from tilelang.ir.func import PrimFunc
from tilelang.jit.call_keys import key_of_call
from tilelang.jit.eager import EagerFunction
from tilelang.jit.kernel import JITKernel
from tilelang.jit.signature import RETURN_KERNEL
from tilelang.profile.inputs import TensorSupplyType
from tilelang.tune.decisions import add_decisions, decision_of, find_decision
from tilelang.tune.gemm_space import default_configs
from tilelang.tune.result import TuningResult
from tilelang.tune.settings import Settings
from tilelang.tune.space import Configs, configurations
from tilelang.tune.subject import PASS_CONFIGS, Subject, jitted_function
from tilelang.tune.tuner import decided_result, tune


@public
class TunedFunction:
    """A function marked `@tilelang.autotune`.

    A call returns what the function returns with the fastest configuration: a kernel with `config`, `latency` and
    `ref_latency`, or the results of an eager function.

    Attributes:
        jitted: The function marked `@tilelang.jit`.
    """

    def __init__(
        self, function: Any, configs: Configs | None, settings: Settings, do_not_specialize: Sequence[str] = ()
    ) -> None:
        self.jitted = jitted_function(function, "@tilelang.autotune")
        self._configs, self._settings, self._shared = configs, settings, frozenset(do_not_specialize)
        self._results: dict[Any, tuple[Subject, TuningResult]] = {}
        # the results of earlier calls by key: a function and further keywords, or a kernel
        self._recognized: dict[Any, tuple[EagerFunction, Mapping[str, Any]]] = {}
        self._kernels: dict[Any, JITKernel] = {}
        self._lock = threading.RLock()
        functools.update_wrapper(self, self.jitted.func)

    @public
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The kernel for these arguments, or for eager functions what it returns.

        Raises:
            TuningError: No configuration can be used; notes say why.
            ArgumentError: The arguments do not fit the function's signature.
            OptionError: The configurations or the execution backend cannot be used.
        """
        if keywords.pop(RETURN_KERNEL, False):
            return self.compile(*args, **keywords)
        if not isinstance(self.jitted, EagerFunction):
            key = key_of_call(args, keywords)
            kernel = self._kernels.get(key)
            if kernel is None:
                kernel = self._kernels[key] = self._kernel_of_call(Subject(self.jitted, args, keywords))
            return kernel
        key = self.jitted._quick_key(args, keywords)
        if key in self._recognized:
            known, tunables = self._recognized[key]
            return known(*args, **keywords, **tunables)
        subject = Subject(self.jitted, args, keywords)
        if self._has_nothing_to_tune(subject):
            if key is not None:
                self._recognized[key] = self.jitted, {}
            return self.jitted(*args, **keywords)
        result = self._tune(subject)
        own_args, own_keywords = subject.arguments(result.config)
        function = self._results[self._key(subject)][0].with_pass_configs_of(result.config)
        as_given = all(own is given for own, given in zip(own_args, args, strict=True))
        if key is not None and as_given and isinstance(function, EagerFunction):
            self._recognized[key] = function, {n: v for n, v in own_keywords.items() if n not in keywords}
        return function(*own_args, **own_keywords)

    def tune(self, *args: Any, **keywords: Any) -> TuningResult:
        """The result of tuning for these arguments; tunes if there is none yet.

        Raises:
            TuningError: No configuration can be used; notes say why.
        """
        return self._tune(Subject(self.jitted, args, keywords))

    def compile(self, *args: Any, **keywords: Any) -> JITKernel:
        """The kernel of the fastest configuration; eager functions do not run."""
        return self._kernel_of_call(Subject(self.jitted, args, keywords))

    def _kernel_of_call(self, subject: Subject) -> JITKernel:
        """The kernel of a call, tuned if a tunable has no value."""
        if not self._has_nothing_to_tune(subject):
            return self._kernel(subject, self._tune(subject))
        return subject.kernel({})

    def report(self, *args: Any, **keywords: Any) -> str:
        """The time of each configuration for these arguments, or why it has none."""
        return self.tune(*args, **keywords).report()

    def get_tir(self, *args: Any, **keywords: Any) -> PrimFunc:
        """The program for these arguments, tunables among them; nothing is tuned."""
        return self.jitted.get_tir(*args, **keywords)

    def get_kernel_source(self, *args: Any, **keywords: Any) -> str:
        """The generated source of the fastest configuration."""
        return self.compile(*args, **keywords).get_kernel_source()

    def _key(self, subject: Subject) -> Any:
        return subject.key_without(self._shared)

    def export(self, path: str | Path) -> None:
        """Writes what was found for the calls so far into a file, which `tilelang.autotune(decisions=...)` obeys.

        Entries that the file has of other functions and calls stay.

        Args:
            path: The file, which can be checked in.

        Raises:
            OptionError: Nothing was tuned yet.
            TuningError: The file exists, and holds something else.
        """
        if not self._results:
            raise OptionError(f"export: '{self.jitted.func.__name__}' has not been tuned yet", hint="call it first")
        add_decisions(path, [decision_of(subject, result) for subject, result in self._results.values()])

    def _tune(self, subject: Subject) -> TuningResult:
        with self._lock:
            key = self._key(subject)
            if key not in self._results:
                decisions = self._settings.decisions
                self._results[key] = (
                    subject,
                    tune(subject, self._configs, self._settings)
                    if decisions is None
                    else decided_result(subject, find_decision(decisions, subject)),
                )
                self._recognized.clear()  # what was not tuned may be like this call
                self._kernels.clear()
            return self._results[key][1]

    def _kernel(self, subject: Subject, result: TuningResult) -> JITKernel:
        """The kernel of a call with the configuration found for it, or for an equivalent call."""
        first, found = self._results[self._key(subject)][0], result.kernel
        assert found is not None
        if subject.key == first.key:
            return found
        return copy(subject.kernel(result.config)).update_tuner_result(
            result.latency, result.config, result.ref_latency
        )

    def _has_nothing_to_tune(self, subject: Subject) -> bool:
        """Whether nothing is to be tuned: the call gives tunables and none is left, or no configuration names any."""
        if self._key(subject) in self._results:
            return False
        if self._settings.decisions is not None:
            return not subject.tunables
        rows = configurations(default_configs(subject) if self._configs is None else self._configs, subject)
        tunables = [name for name in rows[0] if name != PASS_CONFIGS]
        given = rows == [{}] or any(name in subject.pinned for name in tunables)
        return given and all(name in subject.known for name in tunables)


@public
def autotune(
    func: Callable[..., Any] | None = None,
    *,
    configs: Configs | None = None,
    warmup: float = 25,
    rep: float = 100,
    timeout: float = 100,
    supply_type: TensorSupplyType = TensorSupplyType.Auto,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable[..., Any] | None = None,
    cache_input_tensors: bool = False,
    do_not_specialize: Sequence[str] | None = None,
    backend: str = "event",
    early_stop: bool = True,
    early_stop_factor: float = 2.0,
    budget: float | None = None,
    num_workers: int | None = None,
    trials: int | None = 5,
    executor: Executor | None = None,
    decisions: str | Path | None = None,
) -> Any:
    """Lets a function find the values of its tunables itself: write it above `@tilelang.jit`.

    The model of `JITKernel.predict` orders the configurations, where it has figures of the machine. The first ones are
    compiled, in processes that run at once, then checked, and the right ones are timed in rounds, in which their order
    is drawn anew and from which the slow ones retire. What is found stays in the compile cache. A call that gives a
    tunable is not tuned, unless another tunable has no value then; that one is.

    Args:
        func: The function, where the decorator is used bare.
        configs: What to choose from: a list of dicts of arguments; a dict of lists, which means each with each; or a
            function that gives one of these, called with those of the function's arguments that it names, and with
            `target` and `tunables` if it names these. The key "pass_configs" holds switches of the compiler. Without
            configs the tunables `block_M`, `block_N` and others get `tilelang.autotuner.gemm_configs`.
        warmup: Milliseconds that each configuration runs before it is timed, in every round.
        rep: Milliseconds that each is timed, in all rounds together.
        timeout: Seconds after which the compilation of one is given up.
        supply_type: What the elements of made-up tensors are.
        ref_prog: Computes what is right, from the inputs of the kernel; also timed, as `ref_latency`. Without it
            results are compared with those of most other configurations.
        supply_prog: Makes the inputs, from the list of the kernel's input parameters.
        rtol: How far results may be off, relative to what is right.
        atol: The same, absolute.
        max_mismatched_ratio: The share of elements that may be off further.
        skip_check: Do not look at results.
        manual_check_prog: Compares the lists of results and of right results instead, and raises if they differ.
        cache_input_tensors: Accepted as published; configurations with alike parameters share their inputs.
        do_not_specialize: Arguments whose values do not count: calls that differ in no others share what was found.
        early_stop: Whether configurations that are clearly slower retire early.
        early_stop_factor: How many times slower than the best one may be at a first look and stay.
        backend: How a GPU's time is taken, as for `tilelang.profiler.do_bench`.
        budget: Seconds after which the search takes the best it has.
        num_workers: How many processes compile at once; one per core without it.
        trials: How many configurations are compiled and measured, those that the model expects to be fastest; None for
            all. Where no rates of the machine were measured, all are.
        executor: A `concurrent.futures.Executor` that predicts, compiles and measures instead of this process, such as
            `dask.distributed.Client(...).get_executor()`; measuring is one task of it.
        decisions: A file of `TunedFunction.export`. Then nothing is tuned: calls take the configurations that it holds.

    Raises:
        OptionError: A number is out of range, or what should be a function is none.
        TuningSubjectError: What is decorated is not marked `@tilelang.jit`.

    Example:
        `@tilelang.autotune(configs={"block_M": [64, 128], "block_N": [64, 128]})`
    """
    settings = Settings(
        warmup, rep, timeout, supply_type, ref_prog, supply_prog, rtol, atol, max_mismatched_ratio, skip_check,
        manual_check_prog, cache_input_tensors, backend, early_stop, early_stop_factor, budget, num_workers,
        trials, executor, decisions,
    )  # fmt: skip

    @public
    def decorate(function: Any) -> TunedFunction:
        return TunedFunction(function, configs, settings, do_not_specialize or ())

    return decorate if func is None else decorate(func)
