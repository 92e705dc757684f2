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
from tilelang.runtime.cuda_driver import Driver, open_driver
from tilelang.runtime.failures import FAILURES
from tilelang.runtime.streams import framework, stream_of

_FLUSH_BYTES = 256 << 20  # several times the L2 cache of every GPU so far
_ESTIMATES = 5  # calls by which the number of calls is chosen
_REPLAYS = 10  # of a recorded graph


def is_device_busy() -> bool:
    """Whether this process works on a GPU, so that the time of a call is the GPU's and not the host's."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def time_by_events(
    fn: Callable[[], Any],
    warmup: float,
    rep: float,
    n_warmup: int,
    n_repeat: int,
    before: Callable[[], None],
    driver: Driver | None = None,
) -> list[float]:
    """The time of each call in milliseconds.

    Args:
        fn: Starts the work.
        warmup: How long to run before measuring, in milliseconds.
        rep: How long to measure, in milliseconds.
        n_warmup: Calls before measuring, instead of `warmup`.
        n_repeat: Calls to measure, instead of `rep`.
        before: Done before each call, outside of the measured time.
        driver: The driver; the machine's by default.

    Raises:
        DriverError: The device failed.
        DeviceAssertError: An assertion of a kernel failed.
    """
    driver = driver or open_driver()
    fn()
    _finish(driver)
    device = driver.current_device() or 0
    stream = stream_of(framework(None), device)
    with _flusher(driver, stream) as flush:

        def between() -> None:
            before()
            flush()

        def measured(count: int) -> list[float]:
            return _measured(driver, fn, count, between, stream)

        estimate = max(sum(measured(_ESTIMATES)) / _ESTIMATES, 1e-4)
        for _ in range(n_warmup or max(1, int(warmup / estimate))):
            fn()
        return measured(n_repeat or max(1, int(rep / estimate)))


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
def _flusher(driver: Driver, stream: int) -> Iterator[Callable[[], None]]:
    """A function that overwrites the L2 cache."""
    pointer = driver.allocate(_FLUSH_BYTES, stream)
    try:
        yield lambda: driver.fill(pointer, 0, _FLUSH_BYTES // 4, stream)
    finally:
        driver.free(pointer, stream)


def _finish(driver: Driver) -> None:
    """Waits for the device."""
    try:
        driver.synchronize()
    except DriverError:
        FAILURES.check()
        raise


def time_by_graph(fn: Callable[[], Any], rep: float, n_repeat: int) -> list[float]:
    """The time of a call in milliseconds, once per replay of a recorded graph of many calls; the cache stays warm.

    Args:
        fn: Starts the work.
        rep: How long one replay shall take, in milliseconds.
        n_repeat: Calls in the graph, instead of `rep`.

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
        fn()
        side.synchronize()
        once = _between_torch_events(torch, lambda: [fn() for _ in range(_ESTIMATES)]) / _ESTIMATES
        count = n_repeat or max(1, int(rep / _REPLAYS / max(once, 1e-4)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(count):
                fn()
        side.synchronize()
        return [_between_torch_events(torch, graph.replay) / count for _ in range(_REPLAYS)]


def _between_torch_events(torch: Any, work: Callable[[], object]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))
