"""Measures how long work on a GPU takes, by events of the driver or by replaying a recorded graph.

Takes a function that starts work, gives milliseconds per call. Invariant: what is measured runs on the framework's
current stream, and between calls timed by events the L2 cache is overwritten, as it would be in a larger program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.errors import DriverError, OptionError
from tilelang.records import record
from tilelang.targets.nvidia.runtime.cuda_driver import Driver, open_driver
from tilelang.targets.nvidia.runtime.failures import FAILURES
from tilelang.targets.nvidia.runtime.streams import framework, stream_of

_ESTIMATES = 5  # calls by which the number of calls is chosen
_REPLAYS = 10  # of a recorded graph


def is_device_busy() -> bool:
    """Whether this process works on a GPU, so that the time of a call is the GPU's and not the host's."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


@record
class Plan:
    """What to measure, and how long.

    Attributes:
        fn: Starts the work.
        warmup: How long to run before measuring, in milliseconds.
        rep: How long to measure, in milliseconds; for a graph, how long one replay takes.
        n_warmup: Calls before measuring, instead of `warmup`.
        n_repeat: Calls to measure, instead of `rep`.
        before: Done before each call, outside of the measured time.
        flush_bytes: How much memory is written before each call to empty the L2 cache.
        baseline: Milliseconds; where a first estimate is above them, it is the only time that is taken.
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
        """Whether a first estimate says that measuring is not worth the time."""
        return self.baseline is not None and estimate > self.baseline


def time_by_events(plan: Plan, driver: Driver | None = None) -> list[float]:
    """The time of each call in milliseconds.

    Args:
        plan: What to measure.
        driver: The driver; the machine's by default.

    Raises:
        DriverError: The device failed.
        DeviceAssertError: An assertion of a kernel failed.
    """
    driver = driver or open_driver()
    plan.fn()
    _finish(driver)
    device = driver.current_device() or 0
    stream = stream_of(framework(None), device)
    with _flusher(driver, stream, plan.flush_bytes) as flush:

        def between() -> None:
            plan.before()
            flush()

        def measured(count: int) -> list[float]:
            return _measured(driver, plan.fn, count, between, stream)

        estimate = max(sum(measured(_ESTIMATES)) / _ESTIMATES, 1e-4)
        if plan.is_too_slow(estimate):
            return [estimate]
        for _ in range(plan.n_warmup or max(1, int(plan.warmup / estimate))):
            plan.fn()
        return measured(plan.n_repeat or max(1, int(plan.rep / estimate)))


def _measured(
    driver: Driver, fn: Callable[[], Any], count: int, between: Callable[[], object], stream: int
) -> list[float]:
    pairs = [(driver.event(), driver.event()) for _ in range(count)]
    try:
        for start, end in pairs:
            between()
            driver.record(start, stream)
            fn()
            driver.record(end, stream)
        _finish(driver)
        return [driver.elapsed_ms(start, end) for start, end in pairs]
    finally:
        for pair in pairs:
            for event in pair:
                driver.discard(event)


@contextmanager
def _flusher(driver: Driver, stream: int, flush_bytes: int) -> Iterator[Callable[[], None]]:
    """A function that overwrites the L2 cache."""
    if not flush_bytes:
        yield lambda: None
        return
    pointer = driver.allocate(flush_bytes, stream)
    try:
        yield lambda: driver.fill(pointer, 0, flush_bytes // 4, stream)
    finally:
        driver.free(pointer, stream)


def _finish(driver: Driver) -> None:
    """Waits for the device."""
    try:
        driver.synchronize()
    except DriverError:
        FAILURES.check()
        raise


def time_by_graph(plan: Plan) -> list[float]:
    """The time of a call in milliseconds, once per replay of a recorded graph of many calls; the cache stays warm.

    Args:
        plan: What to measure; `n_repeat` is the number of calls in the graph.

    Raises:
        OptionError: torch, which records the graph, is not there.
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
