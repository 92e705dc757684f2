"""Checks the results of compiled configurations and races those that are right, on one device.

Invariant: a configuration that fails in any way does not affect the others, and the reason is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Sized
from typing import Any

from tilelang.errors import TuningError
from tilelang.jit.kernel import JITKernel
from tilelang.profile.timer import do_bench
from tilelang.records import record
from tilelang.tune import check
from tilelang.tune.check import MajorityVote
from tilelang.tune.device import check_can_measure, device_name, is_lost
from tilelang.tune.executors import SubjectMessage
from tilelang.tune.inputs import Supplier
from tilelang.tune.progress import Progress
from tilelang.tune.race import race
from tilelang.tune.result import Measurement, Rejection, nothing_found
from tilelang.tune.settings import Settings
from tilelang.tune.space import Config, text_of
from tilelang.tune.subject import Subject
from tilelang.tune.workers import OUT_OF_TIME, Failure, failure_of

_CHECKING_SHARE = 0.5  # of the time that is left, at most, until results are checked
_MAX_CALL_RATIO = 10.0  # times slower than the best, by the clock of the host, and that by more than
_MAX_CALL_EXCESS = 0.02  # seconds: more than the noise of a host


@record
class Measured:
    """The measurements of a search.

    Attributes:
        device: On which device.
        measured: Configurations with times, the best first.
        rejected: The others.
        ref_latency: Milliseconds of a call of the reference, if there is one.
        compared: What results were compared with.
    """

    device: str
    measured: tuple[Measurement, ...]
    rejected: tuple[Rejection, ...]
    ref_latency: float | None
    compared: str


def measure(
    subject: Subject,
    kernels: Sequence[tuple[Config, JITKernel]],
    settings: Settings,
    progress: Progress,
    budget: float | None,
    earlier: Sequence[Rejection] = (),
) -> Measured:
    """The times of kernels on the device of this process.

    Args:
        subject: What is tuned.
        kernels: The configurations and their kernels, distinct.
        settings: How to check and measure.
        progress: Shows how far it is.
        budget: Seconds that it may take.
        earlier: Configurations that were rejected before; an error that nothing can be used names them.

    Raises:
        TuningError: No configuration can be used, the reference failed, or configurations disagree and there is no
            reference.
        DriverError: One of them crashed the device.
    """
    return _Measurer(subject, settings, progress, budget, earlier).run(kernels)


def measure_remote(
    sent: SubjectMessage, configs: Sequence[Config], settings: Settings, budget: float | None
) -> Measured | Failure:
    """The times of configurations in another process, which has a device, or why there are none."""
    try:
        subject = sent.restore()
        check_can_measure(subject.name, subject.target, subject.execution_backend)
        kernels = [(config, subject.kernel(config)) for config in configs]
        with Progress(subject.name) as progress:
            return measure(subject, kernels, settings, progress, budget)
    except Exception as error:
        return failure_of(error)


class _Measurer:
    def __init__(
        self,
        subject: Subject,
        settings: Settings,
        progress: Progress,
        budget: float | None,
        earlier: Sequence[Rejection],
    ) -> None:
        self._subject, self._settings, self._progress, self._budget = subject, settings, progress, budget
        self._supplier = Supplier(subject.name, settings.supply_type, settings.supply_prog, subject.inputs)
        self._rejected: list[Rejection] = []
        self._earlier = earlier
        self._start = time.monotonic()

    def run(self, kernels: Sequence[tuple[Config, JITKernel]]) -> Measured:
        kernels, compared = self._check_results(kernels)
        measured, ref_latency = self._race_kernels(kernels)
        name = device_name(self._subject.target)
        return Measured(name, tuple(measured), tuple(self._rejected), ref_latency, compared)

    def _reject(self, config: Config, stage: str, failure: Failure) -> None:
        stage = "budget" if failure.late else stage
        self._rejected.append(Rejection(config, stage, failure.message, failure.details))

    def _until(self, share: float) -> float | None:
        """The time at which a share of the budget is used up."""
        return None if self._budget is None else self._start + share * self._budget

    def _require(self, left: Sized) -> None:
        if not left:
            raise nothing_found(self._subject.name, [*self._earlier, *self._rejected])

    def _check_results(self, kernels: Sequence[tuple[Config, JITKernel]]) -> tuple[list[tuple[Config, JITKernel]], str]:
        """The kernels that run and have correct results, and what these were compared with."""
        checker = _Checker(self._subject.name, self._settings)
        deadline = self._until(_CHECKING_SHARE)
        seconds: dict[int, float] = {}
        for number, (config, kernel) in enumerate(kernels):
            self._progress.show("checking", number, len(kernels))
            if seconds and deadline is not None and time.monotonic() > deadline:
                self._reject(config, "budget", Failure(OUT_OF_TIME))
                continue
            key, inputs = self._supplier.inputs(kernel)
            checker.prepare(key, kernel, inputs)
            try:
                outcome = check.run(kernel, inputs)
                wrong = checker.mismatch(key, config, outcome)
            except TuningError:
                raise
            except Exception as error:
                self._reject(config, "run", failure_of(error))
                if is_lost(self._subject.target):
                    raise TuningError(
                        f"autotune: the configuration {text_of(config)} of '{self._subject.name}' crashed the device: "
                        f"{failure_of(error).message}",
                        hint="leave it out and restart the process; execution_backend='simulator' reports the error",
                    ) from error
                continue
            if wrong:
                self._reject(config, "check", Failure(wrong))
            else:
                seconds[number] = outcome.seconds
        for rejection in checker.minority():
            self._rejected.append(rejection)
        wrong_ones = {id(rejection.config) for rejection in self._rejected}
        left = [(n, kernels[n]) for n in seconds if id(kernels[n][0]) not in wrong_ones]
        self._require(left)
        best = min(seconds[number] for number, _ in left)
        far = max(_MAX_CALL_RATIO * best, self._settings.early_stop_factor * best, best + _MAX_CALL_EXCESS)
        fair = []
        for number, (config, kernel) in left:
            taken = seconds[number]
            if self._settings.early_stop and taken > far:  # once more, since the host may have been busy
                taken = min(taken, check.timed(kernel, self._race_inputs(kernel))[1])
            if self._settings.early_stop and taken > far:
                message = f"a call took {taken / best:.0f} times as long as that of the fastest"
                self._reject(config, "slow", Failure(message))
            else:
                fair.append((config, kernel))
        return fair, checker.compared(len(left))

    def _race_kernels(self, kernels: Sequence[tuple[Config, JITKernel]]) -> tuple[list[Measurement], float | None]:
        """The times of all, the fastest first, and that of the reference."""
        settings = self._settings
        device = kernels[0][1].get_profiler().device

        def clock(run: Callable[[], Any], warmup: int, calls: int) -> tuple[float, float]:
            both = (0.5, 0.0)
            times = do_bench(
                run, _n_warmup=warmup, _n_repeat=calls, quantiles=both, backend=settings.backend, device=device
            )
            assert isinstance(times, list)
            return times[0], times[1]

        def runner(kernel: JITKernel) -> Callable[[], Any]:
            inputs = self._race_inputs(kernel)
            return lambda: kernel(*inputs)

        ended = race(
            {number: runner(kernel) for number, (_, kernel) in enumerate(kernels)},
            clock,
            warmup=settings.warmup,
            rep=settings.rep,
            early_stop=settings.early_stop,
            early_stop_factor=settings.early_stop_factor,
            deadline=self._until(1.0),
            reference=self._reference(kernels[0][1]),
            progress=lambda done, total: self._progress.show("measuring", done, total),
        )
        for number, failure in ended.failures.items():
            self._reject(kernels[number][0], "run", failure)
        for number in ended.untimed:
            self._reject(kernels[number][0], "budget", Failure(OUT_OF_TIME))
        self._require(ended.standings)
        best = next(iter(ended.standings.values()))
        measured = [
            Measurement(kernels[number][0], found.latency, round(found.relative_to(best), 4), len(found.times))
            for number, found in ended.standings.items()
        ]
        return measured, ended.reference

    def _race_inputs(self, kernel: JITKernel) -> list[Any]:
        """The inputs; arguments that a kernel writes in place are copies."""
        signature = kernel.signature
        _, inputs = self._supplier.inputs(kernel)
        places = zip(signature.inputs, inputs, strict=True)
        return [check.duplicate(value) if index in signature.written else value for index, value in places]

    def _reference(self, kernel: JITKernel) -> Callable[[], Any] | None:
        ref_prog = self._settings.ref_prog
        if ref_prog is None:
            return None
        check.expected(ref_prog, kernel, self._supplier.inputs(kernel)[1])  # says so if it fails
        inputs = self._race_inputs(kernel)
        return lambda: ref_prog(*inputs)


class _Checker:
    """Checks results by the reference or, without one, by majority vote."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._name, self._settings = name, settings
        self._right: dict[str, check.Named] = {}
        self._votes: dict[str, MajorityVote] = {}

    def prepare(self, key: str, kernel: JITKernel, inputs: Sequence[Any]) -> None:
        """Computes the expected results for these inputs.

        Raises:
            TuningError: The reference failed.
        """
        settings = self._settings
        if settings.ref_prog is not None and not settings.skip_check and key not in self._right:
            self._right[key] = check.expected(settings.ref_prog, kernel, inputs)

    def mismatch(self, key: str, config: Config, outcome: check.Outcome) -> str:
        """The error in the outcome of a kernel on these inputs; empty if there is none, or it is not known yet."""
        settings = self._settings
        if settings.skip_check:
            return ""
        right = self._right.get(key)
        if right is None:
            results = outcome.results or outcome.written
            self._votes.setdefault(key, MajorityVote(settings.tolerances)).add(config, results)
            return ""
        done = dict([*outcome.results, *outcome.written])
        results = [(name, done[name]) for name, _ in right]
        if settings.manual_check_prog is None:
            return check.difference(results, right, settings.tolerances)
        try:
            settings.manual_check_prog([array for _, array in results], [array for _, array in right])
        except Exception as error:
            return failure_of(error).message
        return ""

    def minority(self) -> list[Rejection]:
        """The configurations that differ from the majority."""
        return [found for agreement in self._votes.values() for found in agreement.rejections(self._name)]

    def compared(self, count: int) -> str:
        """Return what results were compared with, as text."""
        if self._settings.skip_check:
            return ""
        if self._settings.ref_prog is not None:
            return f"the reference '{getattr(self._settings.ref_prog, '__name__', 'ref_prog')}'"
        return f"each other ({count} configurations agree)" if count > 1 else ""
