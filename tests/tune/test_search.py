import time
from typing import Any

import numpy as np
import pytest
from tunable import FakeKernel, FakeSubject, configs, twice

from tilelang.errors import OptionError, TuningError
from tilelang.tune import measure
from tilelang.tune import search as module
from tilelang.tune.result import SearchResult
from tilelang.tune.search import search
from tilelang.tune.settings import Settings

QUICK = {"warmup": 1, "rep": 5, "num_workers": 2}


def find(make: Any, *values: Any, **settings: Any) -> tuple[SearchResult, Any]:
    return search(FakeSubject(make), configs(*values), Settings(**{**QUICK, **settings}))  # type: ignore[arg-type]


def reasons(found: SearchResult) -> dict[Any, tuple[str, str]]:
    return {rejection.config["x"]: (rejection.stage, rejection.message) for rejection in found.rejected}


def test_the_fastest_correct_configuration_is_found() -> None:
    def make(x: str) -> FakeKernel:
        if x == "broken":
            raise ValueError("cannot be compiled")
        return FakeKernel(
            (lambda a: a * 3) if x == "wrong" else twice, {"slow": 0.01, "wrong": 0.0}.get(x, 0.002)
        )

    found, kernel = find(make, "slow", "broken", "wrong", "good", ref_prog=twice)
    assert "good" == found.measured[0].config["x"]
    assert ["good", "slow"] == [item.config["x"] for item in found.measured]
    assert {"broken", "wrong"} == set(reasons(found))
    assert ("compile", "ValueError: cannot be compiled") == reasons(found)["broken"]
    assert reasons(found)["wrong"][0] == "check"
    assert reasons(found)["wrong"][1].startswith("'B': 16 of 16 elements differ")
    assert "the reference 'twice'" == found.compared
    assert found.ref_latency is not None
    np.testing.assert_array_equal(kernel(np.ones(16, np.float32)), np.full(16, 2))


def test_without_a_reference_the_majority_is_correct() -> None:
    def make(x: int) -> FakeKernel:
        return FakeKernel(twice if x else lambda a: a * 3, 0.001)

    found, _ = find(make, 0, 1, 2, 3)
    assert {0} == set(reasons(found))
    assert reasons(found)[0][1].startswith("not what 3 of 4 configurations compute: 'B': ")
    assert "each other (3 configurations agree)" == found.compared
    assert None is found.ref_latency


def test_checks_may_be_skipped() -> None:
    found, _ = find(lambda x: FakeKernel(lambda a: a * x, 0.001), 1, 2, skip_check=True)
    assert ((), "") == (found.rejected, found.compared)


def test_a_check_of_the_users_own_decides() -> None:
    def compare(found: list[np.ndarray], right: list[np.ndarray]) -> None:
        assert (found[0] >= right[0]).all(), "smaller"

    def make(x: int) -> FakeKernel:
        return FakeKernel(lambda a: np.abs(a) * 9 * x, 0.001)

    found, _ = find(make, 1, -1, ref_prog=twice, manual_check_prog=compare)
    assert {-1: ("check", "AssertionError: smaller")} == reasons(found)


def test_the_same_code_is_measured_once() -> None:
    found, _ = find(lambda x: FakeKernel(seconds=0.001, identity="one" if x < 2 else ""), 0, 1, 2)
    assert {1: ("same", "the same code as x=0")} == reasons(found)


def test_kernels_that_fail_at_run_time_are_rejected() -> None:
    def make(x: int) -> FakeKernel:
        def work(a: np.ndarray) -> np.ndarray:
            if x:
                raise RuntimeError("illegal address")
            return a * 2

        return FakeKernel(work, 0.001)

    found, _ = find(make, 0, 1)
    assert {1: ("run", "RuntimeError: illegal address")} == reasons(found)


def test_far_too_slow_kernels_are_not_measured() -> None:
    found, _ = find(lambda x: FakeKernel(seconds=0.001 if x else 0.1), 0, 1)
    stage, message = reasons(found)[0]
    assert "slow" == stage
    assert message.startswith("a call took ")
    assert message.endswith(" times as long as that of the fastest")


def test_a_kernel_whose_call_a_busy_host_delayed_is_measured() -> None:
    def make(x: int) -> FakeKernel:
        calls: list[int] = []

        def work(a: np.ndarray) -> np.ndarray:
            calls.append(1)
            if x and len(calls) == 2:  # the one that is timed
                time.sleep(0.1)
            return a * 2

        return FakeKernel(work, 0.001)

    found, _ = find(make, 0, 1)
    assert {} == reasons(found)


def test_a_reference_for_a_kernel_that_works_in_place_may_return_nothing() -> None:
    def make(x: int) -> FakeKernel:
        return FakeKernel(lambda a: a * x, 0.001, in_place=True)

    def in_place(a: np.ndarray) -> None:
        np.negative(a, out=a)

    found, _ = find(make, 1, -1, ref_prog=lambda a: None)
    assert {} == reasons(found)
    found, _ = find(make, 1, -1, ref_prog=in_place)
    assert {1: "check"} == {x: stage for x, (stage, _) in reasons(found).items()}


def test_a_device_that_is_lost_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(a: np.ndarray) -> np.ndarray:
        raise RuntimeError("illegal address")

    monkeypatch.setattr(measure, "is_lost", lambda target: True)
    with pytest.raises(TuningError) as caught:
        find(lambda x: FakeKernel(broken), 0)
    assert (
        "autotune: the configuration x=0 of 'fake' crashed the device: RuntimeError: illegal address\n"
        "hint: leave it out and restart the process; execution_backend='simulator' reports the error"
    ) == str(caught.value)


def test_a_budget_ends_the_search_with_the_best_so_far() -> None:
    found, _ = find(lambda x: FakeKernel(seconds=0.05), *range(8), budget=0.3, early_stop=False)
    assert 8 == len(found.measured) + len(found.rejected)
    assert found.measured
    assert {("budget", "there was no time left for it")} >= set(reasons(found).values())


def test_arguments_written_in_place_are_not_the_users_own() -> None:
    kernels: dict[int, FakeKernel] = {}

    def make(x: int) -> FakeKernel:
        kernels[x] = FakeKernel(np.sqrt, in_place=True)
        return kernels[x]

    subject = FakeSubject(make)
    mine = np.full(16, 4, np.float32)
    subject.inputs = lambda kernel: [mine]  # type: ignore[method-assign,assignment,return-value]
    search(subject, configs(0), Settings(**QUICK, rtol=0, atol=0, max_mismatched_ratio=0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(mine, np.full(16, 4))
    assert 5 < len(kernels[0].calls)


def test_the_error_of_a_search_lists_the_reasons() -> None:
    def make(x: int) -> FakeKernel:
        raise ValueError("too large" if x else "too small")

    with pytest.raises(TuningError) as caught:
        find(make, 0, 1, 2)
    assert (
        "autotune: none of 3 configurations of 'fake' can be used\n"
        "note: 2 failed to compile: ValueError: too large (x=1; x=2)\n"
        "note: 1 failed to compile: ValueError: too small (x=0)\n"
        "hint: call the function with one of these configurations to see the whole error"
    ) == str(caught.value)


def test_a_reference_that_fails_ends_the_search() -> None:
    def wrong(a: np.ndarray) -> np.ndarray:
        raise ValueError("no")

    with pytest.raises(TuningError, match="the reference 'wrong' failed: ValueError: no"):
        find(lambda x: FakeKernel(), 0, ref_prog=wrong)


# -- settings ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"warmup": 0}, "autotune: warmup must be a positive number of milliseconds, got 0"),
        ({"rep": "x"}, "autotune: rep must be a positive number of milliseconds, got 'x'"),
        ({"timeout": -1}, "autotune: timeout must be a positive number of seconds, got -1"),
        ({"budget": True}, "autotune: budget must be a positive number of seconds, got True"),
        ({"num_workers": 0}, "autotune: num_workers must be a positive number of processes, got 0"),
        ({"early_stop_factor": 0.9}, "autotune: early_stop_factor must be a number of at least 1, got 0.9"),
        ({"early_stop": 3}, "autotune: early_stop must be True or False, got 3"),
        ({"ref_prog": 3}, "autotune: ref_prog must be a function, got 3"),
        (
            {"backend": "stopwatch"},
            "autotune: unknown backend 'stopwatch'\nhint: one of event, cudagraph, cupti, auto",
        ),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(OptionError) as caught:
        Settings(**settings)
    assert expected == str(caught.value)


def test_the_model_chooses_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_rates", lambda target: True)
    monkeypatch.setattr(module, "expected_seconds", lambda subject, config: 1e-6 * (10 - config["x"]))
    found, _ = find(lambda x: FakeKernel(twice, 0.001), *range(8), trials=2)
    assert {6, 7} == {each.config["x"] for each in found.measured}
    assert ("model", "predicted 5 us, which is place 3, and the first 2 are measured") == reasons(found)[5]
    assert "6 were not measured" not in found.report()  # a line for each, since each has another time
    everything, _ = find(lambda x: FakeKernel(twice, 0.001), *range(8), trials=None)
    assert 8 == len(everything.measured)


def test_what_cannot_be_lowered_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def expected(subject: Any, config: dict[str, Any]) -> float:
        if config["x"] == 0:
            raise ValueError("no such tile")
        return 1e-6

    monkeypatch.setattr(module, "has_rates", lambda target: True)
    monkeypatch.setattr(module, "expected_seconds", expected)
    found, _ = find(lambda x: FakeKernel(twice, 0.001), *range(4), trials=2)
    assert ("compile", "ValueError: no such tile") == reasons(found)[0]
    assert 2 == len(found.measured)


def test_all_are_measured_where_the_model_knows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def expected(subject: Any, config: dict[str, Any]) -> float:
        raise ValueError("a size is symbolic")

    monkeypatch.setattr(module, "has_rates", lambda target: True)
    monkeypatch.setattr(module, "expected_seconds", expected)
    found, _ = find(lambda x: FakeKernel(twice, 0.001), *range(4), trials=2)
    assert 4 == len(found.measured)
