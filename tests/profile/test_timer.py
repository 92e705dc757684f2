import statistics
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.errors import OptionError
from tilelang.profile.timer import do_bench, quantile


def test_the_time_is_in_milliseconds() -> None:
    assert 2 <= do_bench(lambda: time.sleep(0.002), warmup=1, rep=10) < 50  # type: ignore[operator]


def test_the_number_of_calls_can_be_given() -> None:
    calls = []
    do_bench(lambda: calls.append(1), _n_warmup=3, _n_repeat=5)
    assert 1 + 3 + 3 + 5 == len(calls)  # one to see that it works, three to estimate


def test_every_return_mode_is_an_order() -> None:
    low, mid, high = (do_bench(lambda: None, 1, 1, return_mode=m) for m in ("min", "median", "max"))
    assert 0 <= low <= mid * 3  # type: ignore[operator]
    assert low <= high  # type: ignore[operator]


def test_quantiles_are_returned_in_order() -> None:
    low, high = do_bench(lambda: None, 1, 1, quantiles=[0.2, 0.8])  # type: ignore[misc]
    assert low <= high
    assert isinstance(do_bench(lambda: None, 1, 1, quantiles=[0.5]), float)


def test_gradients_are_dropped_before_each_call() -> None:
    class Tensor:
        grad: object = 1

    tensor = Tensor()
    do_bench(lambda: None, 1, 1, grad_to_none=[tensor])
    assert None is tensor.grad


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache_size": -1}, "do_bench: cache_size is a number of MiB, got -1"),
        ({"return_mode": "avg"}, "do_bench: unknown return_mode 'avg'\nhint: one of mean, median, min, max"),
        ({"backend": "gpu"}, "do_bench: unknown backend 'gpu'\nhint: one of event, cudagraph, cupti, auto"),
        ({"quantiles": [2]}, "do_bench: quantiles are between 0 and 1, got [2]"),
    ],
)
def test_unknown_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        do_bench(lambda: None, **options)  # type: ignore[arg-type]
    assert message == str(caught.value)


@given(st.lists(st.floats(0, 100), min_size=1))
def test_quantiles_of_a_list(values: list[float]) -> None:
    assert min(values) == quantile(values, 0)
    assert max(values) == quantile(values, 1)
    assert statistics.median(values) == pytest.approx(quantile(values, 0.5))


def test_a_first_estimate_above_the_baseline_is_the_answer() -> None:
    calls = []

    def slow() -> None:
        calls.append(1)
        time.sleep(0.002)

    assert 2 <= do_bench(slow, 1, 100, early_stop_baseline=1.0) < 50  # type: ignore[operator]
    assert 5 == len(calls)  # one to see that it works, one to warm up, three to estimate
    low, high = do_bench(slow, 1, 100, quantiles=[0.2, 0.8], early_stop_baseline=1.0)  # type: ignore[misc]
    assert low == high


def test_the_arguments_stand_in_the_published_order() -> None:
    calls = []
    do_bench(lambda: calls.append(1), 25, 100, 3, 5, [0.5], True, "event", "mean", None, 256, None)
    assert 1 + 3 + 3 + 5 == len(calls)
