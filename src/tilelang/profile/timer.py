"""Measures the time of a call, by the clock of the host or of the GPU."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilelang.api import public
from tilelang.errors import OptionError
from tilelang.profile.device_timer import Plan, is_device_busy, time_by_events, time_by_graph

RETURN_MODES = ("mean", "median", "min", "max")
BACKENDS = ("event", "cudagraph", "cupti", "auto")  # methods for GPUs; a CPU has one


@public
def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: str = "mean",
    device: Any = None,
    cache_size: int = 256,
    early_stop_baseline: float | None = None,
    *,
    grad_to_none: Sequence[Any] | None = None,
) -> float | list[float]:
    """The time that `fn()` takes, in milliseconds.

    On a GPU the L2 cache is overwritten between calls, unless a graph is replayed.

    Args:
        fn: What to measure.
        warmup: How long to run before measuring, in milliseconds.
        rep: How long to measure, in milliseconds.
        _n_warmup: Calls before measuring, instead of `warmup`.
        _n_repeat: Calls to measure, instead of `rep`.
        quantiles: Give these quantiles of all calls instead, such as `[0.5, 0.2, 0.8]`.
        fast_flush: Accepted as published; the cache is overwritten in one way.
        backend: How a GPU's time is taken: "event" (also "auto" and "cupti") or "cudagraph"; the CPU's clock is read
            in one way.
        return_mode: "mean", "median", "min" or "max" of all calls.
        device: "cpu", "cuda", or a GPU as an index or a torch device; without it, whether torch is using a GPU decides.
        cache_size: How much memory is written to empty the cache, in MiB.
        early_stop_baseline: Milliseconds; where a first estimate is above them, the estimate is the answer.
        grad_to_none: Tensors whose gradient is dropped before each call.

    Raises:
        OptionError: An unknown `return_mode` or `backend`, a quantile out of range, or a negative `cache_size`.
    """
    del fast_flush
    if return_mode not in RETURN_MODES:
        raise OptionError(f"do_bench: unknown return_mode {return_mode!r}", hint=f"one of {', '.join(RETURN_MODES)}")
    if backend not in BACKENDS:
        raise OptionError(f"do_bench: unknown backend {backend!r}", hint=f"one of {', '.join(BACKENDS)}")
    if quantiles is not None and not all(0 <= q <= 1 for q in quantiles):
        raise OptionError(f"do_bench: quantiles are between 0 and 1, got {list(quantiles)}")
    if cache_size < 0:
        raise OptionError(f"do_bench: cache_size is a number of MiB, got {cache_size}")

    def forget_gradients() -> None:
        for tensor in grad_to_none or ():
            tensor.grad = None

    plan = Plan(fn, warmup, rep, _n_warmup, _n_repeat, forget_gradients, cache_size << 20, early_stop_baseline)
    with on_device(device):
        if not (is_device_busy() if device is None else isinstance(device, int) or str(device).startswith("cuda")):
            times = _host_times(plan)
        elif backend == "cudagraph":
            times = time_by_graph(plan)
        else:
            times = time_by_events(plan)
    if quantiles is not None:
        found = [quantile(times, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    summaries = {"mean": statistics.fmean(times), "median": statistics.median(times)}
    return summaries.get(return_mode, min(times) if return_mode == "min" else max(times))


@contextlib.contextmanager
def on_device(device: Any) -> Iterator[None]:
    """Makes a GPU that is named by its index or as a torch device the current one; any other text changes nothing."""
    torch = sys.modules.get("torch")
    index = device if isinstance(device, int) else getattr(device, "index", None)
    if torch is None or not isinstance(index, int) or not torch.cuda.is_available():
        yield
        return
    with torch.cuda.device(index):
        yield


def _host_times(plan: Plan) -> list[float]:
    estimate = max(_once(plan.fn), 1e-6)
    for _ in range(plan.n_warmup or max(1, int(plan.warmup / estimate))):
        plan.fn()
    estimate = max(min(_once(plan.fn) for _ in range(3)), 1e-6)
    if plan.is_too_slow(estimate):
        return [estimate]
    times = []
    for _ in range(plan.n_repeat or max(1, int(plan.rep / estimate))):
        plan.before()
        times.append(_once(plan.fn))
    return times


def quantile(values: Sequence[float], q: float) -> float:
    """The q-th quantile, linear between neighbors."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _once(fn: Callable[[], Any]) -> float:
    start = time.perf_counter_ns()
    fn()
    return (time.perf_counter_ns() - start) / 1e6
