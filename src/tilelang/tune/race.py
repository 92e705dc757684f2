"""Measures several kernels against each other in rounds, and drops the slow ones early (racing).

Invariant: only times of the same rounds are compared, since the speed of a device varies over time; every round has a
random order with a warm-up of each kernel, since a kernel inherits clock rate and temperature from its predecessor.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from tilelang.records import record
from tilelang.tune.workers import Failure, failure_of

# (function, calls to warm up, calls to measure) -> median and minimum in milliseconds
Clock = Callable[[Callable[[], Any], int, int], tuple[float, float]]

# Maximal slowdown relative to the best to stay, after each round but the last.
_MARGINS = (0.30, 0.15, 0.08, 0.05)
_ROUNDS = len(_MARGINS) + 1
_REFERENCE = -1  # its number
_ESTIMATE_CALLS = 5
_MAX_CALLS = 300  # per round; more do not improve the estimate
_MIN_CALLS = 3  # unless a single one takes longer than a round


@record(frozen=False)
class Standing:
    """The measurements of one kernel.

    Attributes:
        times: Milliseconds of a call, a median for each round.
        ratios: The same as multiples of the fastest of the round.
    """

    times: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    @property
    def score(self) -> float:
        """Slowdown relative to the best, as a factor."""
        return statistics.median(self.ratios)

    @property
    def best_ratio(self) -> float:
        """The same in its best round, as disturbances only increase times."""
        return min(self.ratios)

    def relative_to(self, other: Standing) -> float:
        """The ratio to the time of another one, in the rounds in which both were measured."""
        return statistics.median(mine / (theirs or 1.0) for mine, theirs in zip(self.times, other.times, strict=False))

    @property
    def latency(self) -> float:
        """Milliseconds of a call."""
        return statistics.median(self.times)


@record
class Race:
    """The results of a race.

    Attributes:
        standings: Measured ones, the fastest first.
        failures: Those that failed during the measurement.
        untimed: Those not measured within the budget.
        reference: The time of the reference in the last round, if there is one.
    """

    standings: dict[int, Standing]
    failures: dict[int, Failure]
    untimed: tuple[int, ...]
    reference: float | None


class _Stopped(Exception):
    """The time limit is reached."""


def race(
    runners: Mapping[int, Callable[[], Any]],
    clock: Clock,
    *,
    warmup: float = 25,
    rep: float = 100,
    early_stop: bool = True,
    early_stop_factor: float = 2.0,
    deadline: float | None = None,
    reference: Callable[[], Any] | None = None,
    seed: int = 0,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Race:
    """Measures all runners against each other.

    Args:
        runners: The functions to call, by number.
        clock: Measures a call.
        warmup: Milliseconds that each runs before it is measured, in every round.
        rep: Milliseconds that each is measured, in all rounds together.
        early_stop: Whether to drop those that are clearly slower after each round.
        early_stop_factor: Maximal slowdown relative to the best in the first estimate.
        deadline: Time limit, by `time.monotonic`.
        reference: Also measured in the last round.
        seed: Seed of the orders.
        progress: Called with the numbers of done and all rounds.
    """
    factor = early_stop_factor if early_stop else None
    racer = _Racer(dict(runners), clock, warmup, rep, factor, deadline, random.Random(seed), progress)
    return racer.run(reference)


class _Racer:
    def __init__(
        self,
        runners: dict[int, Callable[[], Any]],
        clock: Clock,
        warmup: float,
        rep: float,
        factor: float | None,
        deadline: float | None,
        rng: random.Random,
        progress: Callable[[int, int], object],
    ) -> None:
        self._runners, self._clock = runners, clock
        self._warmup, self._rep = warmup, rep / _ROUNDS
        self._factor, self._deadline, self._rng, self._progress = factor, deadline, rng, progress
        self._standings = {name: Standing() for name in runners}
        self._failures: dict[int, Failure] = {}
        self._fastest: dict[int, float] = {}  # milliseconds of a call in the first estimate, the minimum
        self._latest: dict[int, float] = {}  # the latest median, which sets the number of calls

    def run(self, reference: Callable[[], Any] | None) -> Race:
        ref_latency = None
        try:
            racing = self._estimate()
            for number in range(_ROUNDS):
                times = self._round(racing)
                for name in times:
                    self._standings[name].times.append(times[name])
                    self._standings[name].ratios.append(times[name] / (min(times.values()) or 1.0))
                racing = [name for name in racing if name in times]
                if number < len(_MARGINS):
                    racing = self._faster(racing, {n: self._standings[n].best_ratio for n in racing}, _MARGINS[number])
                self._progress(number + 1, _ROUNDS)
        except _Stopped:
            pass
        if reference is not None and self._fastest:
            self._latest[_REFERENCE] = self._clock(reference, 1, 1)[0]
            ref_latency = self._time(_REFERENCE, reference)
        return self._results(ref_latency)

    def _estimate(self) -> list[int]:
        """Estimates the time of each by a short measurement, which sets the number of calls of a round."""
        order = list(self._runners)
        self._rng.shuffle(order)
        for name in order:
            if self._fastest:
                self._check_time()
            try:
                self._latest[name], self._fastest[name] = self._clock(self._runners[name], 1, _ESTIMATE_CALLS)
            except Exception as error:
                self._failures[name] = failure_of(error)
        racing = [name for name in self._runners if name in self._fastest]
        return self._faster(racing, self._relative(self._fastest), (self._factor or 1.0) - 1)

    def _round(self, racing: list[int]) -> dict[int, float]:
        order = list(racing)
        self._rng.shuffle(order)
        times: dict[int, float] = {}
        for name in order:
            self._check_time()
            try:
                times[name] = self._time(name, self._runners[name])
            except Exception as error:
                self._failures[name] = failure_of(error)
        return times

    def _time(self, name: int, run: Callable[[], Any]) -> float:
        latest = max(self._latest[name], 1e-4)
        least = 1 if latest > self._rep else _MIN_CALLS
        calls = max(least, min(_MAX_CALLS, math.ceil(self._rep / latest)))
        self._latest[name], _ = self._clock(run, max(1, math.ceil(self._warmup / latest)), calls)
        return self._latest[name]

    def _faster(self, racing: list[int], scores: Mapping[int, float], margin: float) -> list[int]:
        """Those that are not much slower than the best."""
        if self._factor is None or not racing:
            return racing
        limit = min(scores[name] for name in racing) * (1 + margin)
        return [name for name in racing if scores[name] <= limit]

    def _check_time(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise _Stopped

    def _relative(self, times: Mapping[int, float]) -> dict[int, float]:
        best = min(times.values(), default=1.0) or 1.0
        return {name: value / best for name, value in times.items()}

    def _results(self, ref_latency: float | None) -> Race:
        """The results; those measured in more rounds first."""
        looked = self._relative(self._fastest)
        for name, standing in self._standings.items():
            if not standing.times and name in looked:  # dropped by the first estimate, or no round was completed
                standing.times, standing.ratios = [self._fastest[name]], [looked[name]]
        timed = {n: s for n, s in self._standings.items() if s.times and n not in self._failures}
        ranked = sorted(timed, key=lambda name: (-len(timed[name].times), timed[name].score))
        untimed = tuple(n for n in self._runners if n not in timed and n not in self._failures)
        return Race({name: timed[name] for name in ranked}, self._failures, untimed, ref_latency)
