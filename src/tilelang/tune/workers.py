"""Runs many tasks in processes of their own, and returns the value or the failure of each.

Invariant: a task that raises, hangs or crashes does not affect the others; no process outlives the call.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from typing import Any

from tilelang.errors import TileLangError
from tilelang.records import record
from tilelang.runtime import cache

OUT_OF_TIME = "there was no time left for it"
_TICK_SECONDS = 0.5  # polling interval

Task = Callable[[int], object]


@record
class Failure:
    """Why a task failed.

    Attributes:
        message: The first line of the error, with its type unless it is a TileLangError.
        details: The whole error.
        late: Whether the deadline had passed.
    """

    message: str
    details: str = ""
    late: bool = False


LATE = Failure(OUT_OF_TIME, late=True)


def failure_of(error: BaseException) -> Failure:
    """The failure of an error."""
    if isinstance(error, TileLangError):
        return Failure(error.message.partition("\n")[0], str(error))
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return Failure(text.partition("\n")[0], text)


def run_all(
    task: Task,
    count: int,
    *,
    workers: int,
    timeout: float,
    deadline: float | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> list[Any]:
    """Calls `task` of 0, 1, ... in parallel; returns the value of each, or its `Failure`.

    Uses forked processes; without fork or compile cache threads, in which hanging tasks cannot be ended.

    Args:
        task: The task, whose value can be pickled; its exception is its failure.
        count: Number of tasks.
        workers: Number of parallel tasks.
        timeout: Time limit of one task, in seconds.
        deadline: Time limit of all tasks, by `time.monotonic`; not before one of them is done.
        progress: Called with the number of done tasks.
    """
    workers = max(1, min(workers, count))
    if can_fork():
        return _Pool(task, count, workers, timeout, deadline, progress).run()
    return _in_threads(task, count, workers, deadline, progress)


def can_fork() -> bool:
    """Whether forked processes can compile kernels for this process."""
    forks = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    return forks and cache.is_writable()


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _attempt(task: Task, index: int) -> Any:
    try:
        return task(index)
    except Exception as error:
        return failure_of(error)


def _in_threads(
    task: Task, count: int, workers: int, deadline: float | None, progress: Callable[[int], object]
) -> list[Any]:
    done: list[int] = []
    compiled: list[int] = []

    def one(index: int) -> Any:
        late = deadline is not None and time.monotonic() > deadline and bool(compiled)
        result = LATE if late else _attempt(task, index)
        done.append(index)
        if not isinstance(result, Failure):
            compiled.append(index)
        progress(len(done))
        return result

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, range(count)))


# -- processes -----------------------------------------------------------------------------------------------
@record(frozen=False)
class _Worker:
    """A process and its task."""

    process: Any
    connection: Connection
    index: int | None = None
    since: float = 0.0


class _Pool:
    def __init__(
        self,
        task: Task,
        count: int,
        workers: int,
        timeout: float,
        deadline: float | None,
        progress: Callable[[int], object],
    ) -> None:
        self._task, self._max_workers, self._timeout = task, workers, timeout
        self._deadline, self._progress = deadline, progress
        self._context = multiprocessing.get_context("fork")
        self._pending = list(range(count))[::-1]
        self._results: dict[int, Any] = {}
        self._count = count
        self._workers: list[_Worker] = []

    def run(self) -> list[Any]:
        try:
            while len(self._results) < self._count:
                self._assign_tasks()
                self._receive_results()
                self._enforce_time_limits()
                self._progress(len(self._results))
        finally:
            for worker in self._workers:
                _end(worker)
        return [self._results[index] for index in range(self._count)]

    def _assign_tasks(self) -> None:
        """Assigns tasks to idle workers, and starts missing ones."""
        while self._pending and len(self._workers) < self._max_workers:
            self._workers.append(self._start())
        for worker in self._workers:
            if worker.index is None and self._pending:
                worker.index, worker.since = self._pending.pop(), time.monotonic()
                with contextlib.suppress(OSError):  # it has died, which `_receive_results` notices
                    worker.connection.send(worker.index)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(self._task, ours, theirs), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking where threads run
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _receive_results(self) -> None:
        busy = {worker.connection: worker for worker in self._workers if worker.index is not None}
        for ready in wait(list(busy), _TICK_SECONDS if self._deadline is None else _TICK_SECONDS / 5):
            worker = busy[ready]  # type: ignore[index]
            try:
                result = worker.connection.recv()
            except (EOFError, OSError):
                self._remove_worker(worker, Failure(_exit_text(worker)))
                continue
            self._results[self._index(worker)] = result
            worker.index = None

    def _enforce_time_limits(self) -> None:
        """Ends tasks that exceed the time limit."""
        now = time.monotonic()
        for worker in [worker for worker in self._workers if worker.index is not None]:
            if now - worker.since > self._timeout:
                self._remove_worker(worker, Failure(f"it took longer than {self._timeout:g} s"))
        if self._deadline is None or now <= self._deadline or not self._any_succeeded():
            return
        for worker in [worker for worker in self._workers if worker.index is not None]:
            self._remove_worker(worker, LATE)
        self._results.update(dict.fromkeys(self._pending, LATE))
        self._pending.clear()

    def _any_succeeded(self) -> bool:
        return any(not isinstance(result, Failure) for result in self._results.values())

    def _remove_worker(self, worker: _Worker, failure: Failure) -> None:
        self._results[self._index(worker)] = failure
        self._workers.remove(worker)
        _end(worker)

    def _index(self, worker: _Worker) -> int:
        assert worker.index is not None
        return worker.index


def _work(task: Task, theirs_of_parent: Connection, connection: Connection) -> None:
    """The loop of a process: runs tasks until there are no more."""
    theirs_of_parent.close()
    os.setsid()  # compilers that it starts end with it, and Ctrl-C is handled by the parent
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = sys.stderr = nowhere  # only the parent prints
        with contextlib.suppress(EOFError, OSError):
            while True:
                connection.send(_attempt(task, connection.recv()))
        os._exit(0)  # without the parent's exit handlers


def _end(worker: _Worker) -> None:
    with contextlib.suppress(OSError):
        os.killpg(worker.process.pid, signal.SIGKILL)
    worker.process.kill()
    worker.process.join()
    worker.connection.close()


def _exit_text(worker: _Worker) -> str:
    worker.process.join(1)
    status = worker.process.exitcode
    how = signal.Signals(-status).name if status is not None and status < 0 else f"status {status}"
    return f"the compiling process died with {how}"
