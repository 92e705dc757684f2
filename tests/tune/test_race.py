import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.tune.race import race

Times = tuple[float, float]


class Bench:
    """A clock that knows the times of its runners, which only say who they are."""

    def __init__(self, times: Sequence[float], drift: Callable[[int], float] = lambda call: 1.0) -> None:
        self.times = times
        self.measured: list[tuple[int, int, int]] = []
        self._drift = drift

    def __call__(self, run: Callable[[], Any], warmup: int, calls: int) -> Times:
        number = run()
        self.measured.append((number, warmup, calls))
        value = self.times[number] * self._drift(len(self.measured))
        return value, value

    @property
    def runners(self) -> dict[int, Callable[[], int]]:
        return {n: (lambda n=n: n) for n in range(len(self.times))}


def test_the_fastest_wins() -> None:
    bench = Bench([3.0, 1.0, 2.0, 1.02])
    ended = race(bench.runners, bench)
    assert [1, 3, 2, 0] == list(ended.standings)
    assert 1.0 == ended.standings[1].latency
    assert ({}, (), None) == (ended.failures, ended.untimed, ended.reference)


def test_slow_kernels_are_dropped_and_close_ones_stay() -> None:
    bench = Bench([1.0, 1.02, 1.1, 1.4, 5.0])
    standings = race(bench.runners, bench).standings
    assert {0: 5, 1: 5, 2: 3, 3: 1, 4: 1} == {n: len(standings[n].times) for n in range(5)}
    assert 2 == sum(number == 3 for number, _, _ in bench.measured)
    assert 1 == sum(number == 4 for number, _, _ in bench.measured)


def test_without_early_stop_all_run_to_the_end() -> None:
    bench = Bench([1.0, 9.0])
    standings = race(bench.runners, bench, early_stop=False).standings
    assert [5, 5] == [len(standing.times) for standing in standings.values()]


def test_the_early_stop_factor_of_the_first_estimate() -> None:
    for factor, looked in ((1.25, {0: 5, 1: 3, 2: 1, 3: 1}), (4.0, {0: 5, 1: 3, 2: 1, 3: 1})):
        bench = Bench([1.0, 1.1, 1.4, 5.0])
        standings = race(bench.runners, bench, early_stop_factor=factor).standings
        assert looked == {n: len(standings[n].times) for n in range(4)}
        looks = [sum(number == n for number, _, _ in bench.measured) for n in range(4)]
        assert [6, 4, 1 if factor < 1.4 else 2, 1] == looks  # a look, and the rounds


@given(st.integers(0, 2**32), st.permutations([1.0, 1.1, 1.2, 1.3, 1.4]))
def test_a_clock_that_slows_down_has_no_effect(seed: int, times: list[float]) -> None:
    bench = Bench(times, drift=lambda call: 1.0 + call / 2000)
    winner = next(iter(race(bench.runners, bench, seed=seed).standings))
    assert 1.0 == times[winner]


def test_dropped_kernels_are_compared_over_common_rounds() -> None:
    bench = Bench([1.0, 1.2], drift=lambda call: 1.0 if call <= 6 else 0.5)
    standings = race(bench.runners, bench).standings
    assert (0.5, 1.2) == (standings[0].latency, standings[1].latency)
    assert 1.2 == standings[1].relative_to(standings[0])
    assert 1.0 == standings[0].relative_to(standings[0])


def test_every_round_has_an_order_of_its_own() -> None:
    bench = Bench([1.0] * 6)
    race(bench.runners, bench)
    orders = {tuple(n for n, _, _ in bench.measured[i : i + 6]) for i in range(0, 36, 6)}
    assert 4 < len(orders)
    again = Bench([1.0] * 6)
    race(again.runners, again)
    assert bench.measured == again.measured


def test_calls_follow_from_the_time_of_one() -> None:
    bench = Bench([0.5, 0.001, 100.0])
    race(bench.runners, bench, warmup=25, rep=100, early_stop=False)
    later = {(number, warmup, calls) for number, warmup, calls in bench.measured if (warmup, calls) != (1, 5)}
    assert {(0, 50, 40), (1, 25000, 300), (2, 1, 1)} == later


def test_a_disturbed_host_does_not_make_rounds_long() -> None:
    counts: list[tuple[int, int]] = []

    def clock(run: Callable[[], Any], warmup: int, calls: int) -> Times:
        counts.append((warmup, calls))
        return 8.0, 0.01

    race({0: lambda: None}, clock, warmup=25, rep=100)
    assert {(1, 5), (4, 3)} == set(counts)


def test_failing_kernels_are_dropped() -> None:
    bench = Bench([1.0, 2.0, 1.1])
    breaks = itertools.count()

    def broken() -> int:
        raise ValueError("no")

    def breaks_later() -> int:
        if next(breaks) == 2:
            raise ValueError("later")
        return 2

    ended = race({0: bench.runners[0], 1: broken, 2: breaks_later}, bench)
    assert [0] == list(ended.standings)
    assert {1: "ValueError: no", 2: "ValueError: later"} == {n: f.message for n, f in ended.failures.items()}


def test_all_kernels_may_fail() -> None:
    def broken() -> int:
        raise ValueError

    ended = race({0: broken}, Bench([]))
    assert {} == ended.standings


def test_the_reference_runs_last() -> None:
    bench = Bench([1.0, 2.0])
    ended = race(bench.runners, lambda run, w, n: (7.0, 7.0) if run() is None else bench(run, w, n), reference=lambda: None)
    assert 7.0 == ended.reference


def test_at_the_deadline_completed_measurements_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    bench = Bench([1.0, 1.1, 1.2])
    ended = race(bench.runners, bench, deadline=6)
    assert [1, 1, 1] == [len(standing.times) for standing in ended.standings.values()]
    assert 0 == next(iter(ended.standings))


def test_at_an_early_deadline_one_kernel_is_estimated() -> None:
    bench = Bench([1.0, 1.1, 1.2])
    ended = race(bench.runners, bench, deadline=0)
    assert (1, 2) == (len(ended.standings), len(ended.untimed))


def test_rounds_are_counted() -> None:
    told: list[tuple[int, int]] = []
    bench = Bench([1.0])
    race(bench.runners, bench, progress=lambda done, total: told.append((done, total)))
    assert [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)] == told
