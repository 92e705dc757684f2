"""Measures how long a call takes, by the host's clock or by the GPU's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import OptionError
from tilelang.profile.device_timer import is_device_busy, time_by_events, time_by_graph

RETURN_MODES = ("mean", "median", "min", "max")
BACKENDS = ("event", "cudagraph", "cupti", "auto")  # how a GPU's clock is read; the CPU has one way


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: str = "mean",
    device: str | None = None,
) -> float | list[float]:
    """The time that `fn()` takes, in milliseconds.

    On a GPU the cache is overwritten between calls, unless a graph is replayed.

    Args:
        fn: What to measure.
        warmup: How long to run before measuring, in milliseconds.
        rep: How long to measure, in milliseconds.
        _n_warmup: Calls before measuring, instead of `warmup`.
        _n_repeat: Calls to measure, instead of `rep`.
        grad_to_none: Tensors whose gradient is dropped before each call.
        quantiles: Give these quantiles of all calls instead, such as `[0.5, 0.2, 0.8]`.
        fast_flush: Accepted as published; the flush has one way.
        backend: How a GPU's time is taken: "event" (also "auto" and "cupti") or "cudagraph"; the CPU's clock is read
            in one way.
        return_mode: "mean", "median", "min" or "max" of all calls.
        device: "cpu" or "cuda"; without it, whether torch is using a GPU decides.

    Raises:
        OptionError: An unknown `return_mode` or `backend`, or a quantile out of range.
    """
    del fast_flush
    if return_mode not in RETURN_MODES:
        raise OptionError(f"do_bench: unknown return_mode {return_mode!r}", hint=f"one of {', '.join(RETURN_MODES)}")
    if backend not in BACKENDS:
        raise OptionError(f"do_bench: unknown backend {backend!r}", hint=f"one of {', '.join(BACKENDS)}")
    if quantiles is not None and not all(0 <= q <= 1 for q in quantiles):
        raise OptionError(f"do_bench: quantiles are between 0 and 1, got {list(quantiles)}")

    def forget_gradients() -> None:
        for tensor in grad_to_none or ():
            tensor.grad = None

    if not (is_device_busy() if device is None else device == "cuda"):
        times = _host_times(fn, warmup, rep, _n_warmup, _n_repeat, forget_gradients)
    elif backend == "cudagraph":
        times = time_by_graph(fn, rep, _n_repeat)
    else:
        times = time_by_events(fn, warmup, rep, _n_warmup, _n_repeat, forget_gradients)
    if quantiles is not None:
        found = [quantile(times, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    summaries = {"mean": statistics.fmean(times), "median": statistics.median(times)}
    return summaries.get(return_mode, min(times) if return_mode == "min" else max(times))


def _host_times(
    fn: Callable[[], Any], warmup: float, rep: float, n_warmup: int, n_repeat: int, before: Callable[[], None]
) -> list[float]:
    estimate = max(_once(fn), 1e-6)
    for _ in range(n_warmup or max(1, int(warmup / estimate))):
        fn()
    estimate = max(min(_once(fn) for _ in range(3)), 1e-6)
    times = []
    for _ in range(n_repeat or max(1, int(rep / estimate))):
        before()
        times.append(_once(fn))
    return times


def quantile(values: Sequence[float], q: float) -> float:
    """The q-th quantile, linear between neighbors."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _once(fn: Callable[[], Any]) -> float:
    start = time.perf_counter_ns()
    fn()
    return (time.perf_counter_ns() - start) / 1e6
