"""The search for the fastest configuration: order all by the model, compile the best in parallel, measure them.

Invariant: a configuration that fails in any way does not affect the others, and the reason is recorded.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence, Sized
from functools import partial
from typing import Any

from tilelang.errors import ProgramWarning, TuningError
from tilelang.jit.kernel import JITKernel
from tilelang.tune.executors import SubjectMessage, compile_remote, run_tasks, store_entries
from tilelang.tune.measure import Measured, measure, measure_remote
from tilelang.tune.progress import Progress
from tilelang.tune.rank import expected_seconds, expected_seconds_remote, has_rates, rejection_text
from tilelang.tune.result import Rejection, SearchResult, nothing_found
from tilelang.tune.settings import Settings
from tilelang.tune.space import Config, text_of
from tilelang.tune.subject import Subject
from tilelang.tune.workers import Failure, cores, failure_of, run_all

_COMPILING_SHARE = 0.5  # of the budget, at most, until all is compiled
_MEASURING_TIMEOUT_SECONDS = 3600  # after which an executor is taken to be lost


def search(subject: Subject, configs: Sequence[Config], settings: Settings) -> tuple[SearchResult, JITKernel]:
    """The outcome of each configuration, and the kernel of the fastest.

    Raises:
        TuningError: No configuration can be used, the reference failed, or configurations disagree and there is no
            reference.
        DriverError: One of them crashed the device.
        OptionError: The executor cannot run tasks.
    """
    with Progress(subject.name) as progress:
        return _Search(subject, configs, settings, progress).run()


class _Search:
    def __init__(self, subject: Subject, configs: Sequence[Config], settings: Settings, progress: Progress) -> None:
        self._subject, self._configs, self._settings, self._progress = subject, configs, settings, progress
        self._rejected: list[Rejection] = []
        self._start = time.monotonic()

    def run(self) -> tuple[SearchResult, JITKernel]:
        kernels = self._without_duplicates(self._compile(self._choose_configs()))
        found = self._measure(kernels)
        seconds = round(time.monotonic() - self._start, 3)
        order = {id(config): index for index, config in enumerate(self._configs)}
        rejected = tuple(sorted([*self._rejected, *found.rejected], key=lambda each: order[id(each.config)]))
        result = SearchResult(
            self._subject.name, found.device, found.measured, rejected, found.ref_latency, found.compared, seconds
        )
        kernel = kernels[[id(config) for config, _ in kernels].index(id(found.measured[0].config))][1]
        return result, kernel

    def _reject(self, config: Config, stage: str, failure: Failure) -> None:
        stage = "budget" if failure.late else stage
        self._rejected.append(Rejection(config, stage, failure.message, failure.details))

    def _until(self, share: float) -> float | None:
        """The time at which a share of the budget is used up."""
        return None if self._settings.budget is None else self._start + share * self._settings.budget

    def _require(self, left: Sized) -> None:
        if not left:
            raise nothing_found(self._subject.name, self._rejected)

    def _parallel(
        self,
        what: str,
        configs: Sequence[Config],
        remote: Callable[[SubjectMessage, Config], Any],
        local: Callable[[Subject, Config], Any],
    ) -> list[Any]:
        """Return the result for each configuration, or its failure.

        Args:
            what: Is done, for the line of progress.
            configs: The configurations.
            remote: Does it for one in a process of an executor.
            local: Does it for one in a process that is forked.
        """
        settings, subject = self._settings, self._subject
        timeout, deadline = settings.timeout, self._until(_COMPILING_SHARE)

        def progress(done: int) -> None:
            self._progress.show(what, done, len(configs))

        if settings.executor is not None:
            sent = SubjectMessage.of(subject)
            tasks = [partial(remote, sent, config) for config in configs]
            return run_tasks(settings.executor, tasks, timeout=timeout, deadline=deadline, progress=progress)
        return run_all(
            lambda index: local(subject, configs[index]),
            len(configs),
            workers=settings.num_workers or cores(),
            timeout=timeout,
            deadline=deadline,
            progress=progress,
        )

    # -- choosing -------------------------------------------------------------------------------------------
    def _choose_configs(self) -> list[Config]:
        """The configurations to measure: those predicted to be fastest, if the model has rates for the machine."""
        trials, configs = self._settings.trials, list(self._configs)
        if trials is None or len(configs) <= trials or not has_rates(self._subject.target):
            return configs
        found = self._parallel("predicting", configs, expected_seconds_remote, expected_seconds)
        times = {number: each for number, each in enumerate(found) if isinstance(each, float)}
        for number, each in enumerate(found):
            if isinstance(each, Failure):
                self._reject(configs[number], "compile", each)
        if not times:  # such as symbolic sizes, which the model cannot predict
            self._rejected.clear()
            return configs
        ranked = sorted(times, key=lambda number: times[number])
        for rank, number in enumerate(ranked[trials:], trials + 1):
            self._reject(configs[number], "model", Failure(rejection_text(times[number], rank, trials)))
        return [configs[number] for number in ranked[:trials]]

    # -- compiling ------------------------------------------------------------------------------------------
    def _compile(self, configs: Sequence[Config]) -> list[tuple[Config, JITKernel]]:
        """The kernels that compile."""
        made: list[Any] = [None]
        if len(configs) > 1 or self._settings.executor is not None:
            made = self._parallel("compiling", configs, compile_remote, _fill_cache)
        kernels = []
        for config, outcome in zip(configs, made, strict=True):
            failure = outcome if isinstance(outcome, Failure) else None
            if failure is None:
                if isinstance(outcome, dict):
                    store_entries(outcome)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ProgramWarning)  # slow ones are there to lose
                        kernels.append((config, self._subject.kernel(config)))  # from the cache
                except Exception as error:
                    failure = failure_of(error)
            if failure is not None:
                self._reject(config, "compile", failure)
        self._require(kernels)
        return kernels

    def _without_duplicates(self, kernels: Sequence[tuple[Config, JITKernel]]) -> list[tuple[Config, JITKernel]]:
        """The kernels, without those with the same code as another one."""
        first: dict[str, Config] = {}
        distinct = []
        for config, kernel in kernels:
            same = first.setdefault(kernel.identity, config)
            if same is config:
                distinct.append((config, kernel))
            else:
                self._reject(config, "same", Failure(f"the same code as {text_of(same)}"))
        return distinct

    # -- measuring ------------------------------------------------------------------------------------------
    def _measure(self, kernels: Sequence[tuple[Config, JITKernel]]) -> Measured:
        """The times of kernels, on the device of this process or on that of one of the executor's."""
        settings, subject = self._settings, self._subject
        budget = None if settings.budget is None else max(0.0, self._start + settings.budget - time.monotonic())
        if settings.executor is None:
            return measure(subject, kernels, settings, self._progress, budget, self._rejected)
        configs = tuple(config for config, _ in kernels)
        alone = dataclasses.replace(settings, executor=None)
        task = partial(measure_remote, SubjectMessage.of(subject), configs, alone, budget)
        found: Measured | Failure = run_tasks(settings.executor, [task], timeout=_MEASURING_TIMEOUT_SECONDS)[0]
        if isinstance(found, Failure):
            raise TuningError(f"autotune: '{subject.name}' could not be measured: {found.message}")
        own = {text_of(config): config for config in configs}  # those that came back are copies
        return dataclasses.replace(
            found,
            measured=tuple(dataclasses.replace(each, config=own[text_of(each.config)]) for each in found.measured),
            rejected=tuple(dataclasses.replace(each, config=own[text_of(each.config)]) for each in found.rejected),
        )


def _fill_cache(subject: Subject, config: Config) -> None:
    """Leaves a kernel in the compile cache."""
    subject.kernel(config)
