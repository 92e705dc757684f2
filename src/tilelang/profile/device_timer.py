"""Measures the time of work on a GPU, by events of the driver or by replaying a recorded graph.

Takes a function that launches work, gives milliseconds per call. Invariant: the work runs on the framework's current
stream; between calls timed by events the L2 cache is flushed, as it would be in a larger program, and the device is
kept busy until the host has enqueued them, so that no time is that of a slow host.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.errors import DriverError, OptionError
from tilelang.records import record
from tilelang.targets.gpu.runtime.device_runtime import DeviceRuntime
from tilelang.targets.gpu.runtime.driver import Driver
from tilelang.targets.gpu.runtime.streams import framework, stream_of
from tilelang.targets.target import present_runtime

_ESTIMATES = 5  # calls of the first estimate
_REPLAYS = 10  # of a recorded graph
_TOGETHER = 64  # calls that are enqueued before the device comes to the first: a stream holds about a thousand launches
_LEAD = 8  # flushes of the cache, half a millisecond or more, that keep the device busy meanwhile
_LONGEST_LEAD = 128


def is_device_busy() -> bool:
    """Whether this process uses a GPU, so that the time of the GPU is measured and not that of the host."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


@record
class Plan:
    """A measurement to make, and for how long.

    Attributes:
        fn: Launches the work.
        warmup: How long to run before measuring, in milliseconds.
        rep: How long to measure, in milliseconds; for a graph, how long one replay takes.
        n_warmup: Calls before measuring, instead of `warmup`.
        n_repeat: Calls to measure, instead of `rep`.
        before: Called before each call, not measured.
        flush_bytes: Bytes written before each call to flush the L2 cache.
        baseline: Milliseconds; if the first estimate exceeds it, the estimate is the only measurement.
    """

    fn: Callable[[], Any]
    warmup: float = 25
    rep: float = 100
    n_warmup: int = 0
    n_repeat: int = 0
    before: Callable[[], object] = lambda: None
    flush_bytes: int = 256 << 20  # several times the L2 cache of every GPU so far
    baseline: float | None = None

    def is_too_slow(self, estimate: float) -> bool:
        """Whether the first estimate exceeds the baseline."""
        return self.baseline is not None and estimate > self.baseline


def time_by_events(plan: Plan, runtime: DeviceRuntime | None = None) -> list[float]:
    """The time of each call in milliseconds.

    Args:
        plan: What to measure.
        runtime: How kernels run; by default on the GPU at hand.

    Raises:
        DriverError: The device failed.
        DeviceAssertError: An assertion of a kernel failed.
    """
    runtime = runtime or present_runtime()
    driver = runtime.open_driver()
    plan.fn()
    _finish(runtime)
    device = driver.current_device() or 0
    stream = stream_of(framework(None), device, driver)
    with _flusher(driver, stream, plan.flush_bytes) as flush:
        clock = _Clock(plan, runtime, stream, flush)
        estimate = max(sum(clock.times(_ESTIMATES)) / _ESTIMATES, 1e-4)
        if plan.is_too_slow(estimate):
            return [estimate]
        for _ in range(plan.n_warmup or max(1, int(plan.warmup / estimate))):
            plan.fn()
        return clock.times(plan.n_repeat or max(1, int(plan.rep / estimate)))


class _Clock:
    """Measures calls by events.

    Args:
        plan: What to measure.
        runtime: How kernels run.
        stream: The stream that the work runs on.
        flush: Flushes the cache.
    """

    def __init__(self, plan: Plan, runtime: DeviceRuntime, stream: int, flush: Callable[[], None]) -> None:
        self._plan, self._runtime, self._stream = plan, runtime, stream
        self._flush = flush
        self._lead = _LEAD if plan.flush_bytes else 0  # nothing else keeps the device busy

    def times(self, count: int) -> list[float]:
        """The time of so many calls, each in milliseconds."""
        found: list[float] = []
        while len(found) < count:
            times, is_late = self._enqueued(min(count - len(found), _TOGETHER))
            if is_late and 0 < self._lead < _LONGEST_LEAD:  # a call that itself waits for the device is always late
                self._lead *= 2
            else:
                found += times
        return found

    def _enqueued(self, count: int) -> tuple[list[float], bool]:
        """The time of some calls, and whether the device came to the first before the last one was enqueued."""
        driver = self._runtime.open_driver()
        pairs = [(driver.event(), driver.event()) for _ in range(count)]
        try:
            for _ in range(self._lead):
                self._flush()
            for start, end in pairs:
                self._plan.before()
                self._flush()
                driver.record(start, self._stream)
                self._plan.fn()
                driver.record(end, self._stream)
            is_late = not driver.is_ahead(pairs[0][0])
            _finish(self._runtime)
            return [driver.elapsed_ms(start, end) for start, end in pairs], is_late
        finally:
            for pair in pairs:
                for event in pair:
                    driver.discard(event)


@contextmanager
def _flusher(driver: Driver, stream: int, flush_bytes: int) -> Iterator[Callable[[], None]]:
    """A function that flushes the L2 cache."""
    if not flush_bytes:
        yield lambda: None
        return
    pointer = driver.allocate(flush_bytes, stream)
    try:
        yield lambda: driver.fill(pointer, 0, flush_bytes // 4, stream)
    finally:
        driver.free(pointer, stream)


def _finish(runtime: DeviceRuntime) -> None:
    """Waits for the device."""
    try:
        runtime.open_driver().synchronize()
    except DriverError:
        runtime.board.check()
        raise


def time_by_graph(plan: Plan) -> list[float]:
    """The time of a call in milliseconds, once per replay of a recorded graph of many calls; the cache stays warm.

    Args:
        plan: What to measure; `n_repeat` is the number of calls in the graph.

    Raises:
        OptionError: torch, which records the graph, is not installed.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        raise OptionError(
            "do_bench: backend 'cudagraph' needs torch with CUDA to record a graph", hint="use backend='event'"
        )
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        plan.fn()
        side.synchronize()
        once = _between_torch_events(torch, lambda: [plan.fn() for _ in range(_ESTIMATES)]) / _ESTIMATES
        if plan.is_too_slow(once):
            return [once]
        count = plan.n_repeat or max(1, int(plan.rep / _REPLAYS / max(once, 1e-4)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(count):
                plan.fn()
        side.synchronize()
        return [_between_torch_events(torch, graph.replay) / count for _ in range(_REPLAYS)]


def _between_torch_events(torch: Any, work: Callable[[], object]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))
