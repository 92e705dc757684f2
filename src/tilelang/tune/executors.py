"""Runs the tasks of a search on a `concurrent.futures.Executor`, such as that of Dask or Ray.

A task is sent to another process or machine: it has the user's function, the arguments of a call and a configuration,
and gives what can be sent back. Invariant: a task that raises gives a `Failure`, so that what a future raises is a
fault of the executor.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import linecache
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from tilelang.errors import OptionError
from tilelang.jit.options import JitOptions
from tilelang.records import record
from tilelang.runtime import cache
from tilelang.targets.family import NATIVE
from tilelang.tune.subject import Subject
from tilelang.tune.workers import LATE, Failure, failure_of


@record(eq=False)
class SubjectMessage:
    """The part of a `Subject` that is sent to another process; the subject itself has kernels of this process.

    Attributes:
        kind: The class of the function that makes kernels.
        func: The user's function.
        lines: Those of its file, which the other machine may lack: kernels are made of the source.
        options: Its options, with the target of this process.
        args: The arguments of the call.
        keywords: The same by name.
    """

    kind: type
    func: Callable[..., Any]
    lines: tuple[str, ...]
    options: JitOptions
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]

    @classmethod
    def of(cls, subject: Subject) -> SubjectMessage:
        """Return the message about a subject."""
        jitted = subject.jitted
        kind, arch = str(subject.target.kind), subject.target.arch
        target = {"kind": kind} if arch == NATIVE else {"kind": kind, "arch": arch}
        options = dataclasses.replace(jitted.options, target=target)
        func = jitted.func.function
        lines = tuple(linecache.getlines(func.__code__.co_filename))
        return cls(type(jitted), func, lines, options, *subject.arguments({}))

    def restore(self) -> Subject:
        """The subject, rebuilt in the process that received this."""
        file = self.func.__code__.co_filename
        if not linecache.getlines(file):
            linecache.cache[file] = (sum(map(len, self.lines)), None, list(self.lines), file)
        return Subject(self.kind(self.func, self.options), self.args, self.keywords)


def compile_remote(subject: SubjectMessage, config: Mapping[str, Any]) -> cache.Entries | Failure:
    """Compiles a configuration; gives the entries of the compile cache that make up its kernel, or why it failed."""
    try:
        with cache.recorded() as entries:
            subject.restore().kernel(config)
    except Exception as error:
        return failure_of(error)
    return entries


def run_tasks(
    executor: Executor,
    tasks: Sequence[Callable[[], Any]],
    *,
    timeout: float,
    deadline: float | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> list[Any]:
    """Return the result of each task, or its `Failure`.

    Args:
        executor: Runs them; it is not shut down.
        tasks: What to run.
        timeout: Time limit of one task, in seconds; those that take longer are given up, not ended.
        deadline: Time limit of all tasks, by `time.monotonic`; not before one of them is done.
        progress: Called with the number of done tasks.

    Raises:
        OptionError: The executor cannot run them.
    """
    futures: dict[Future[Any], int] = {executor.submit(task): number for number, task in enumerate(tasks)}
    results: list[Any] = [None] * len(tasks)
    waiting, end = set(futures), time.monotonic() + timeout * len(tasks)
    made = False
    while waiting:
        late = deadline is not None and made and deadline < end
        left = (deadline if late and deadline is not None else end) - time.monotonic()
        if left <= 0:
            for future in waiting:
                future.cancel()
                results[futures[future]] = LATE if late else Failure(f"it took longer than {timeout:g} s")
            break
        done, waiting = concurrent.futures.wait(waiting, left, concurrent.futures.FIRST_COMPLETED)
        for future in done:
            results[futures[future]] = _result(future, executor)
            made = made or not isinstance(results[futures[future]], Failure)
        progress(len(tasks) - len(waiting))
    return results


def _result(future: Future[Any], executor: Executor) -> Any:
    try:
        return future.result()
    except Exception as error:
        raise OptionError(
            f"autotune: {type(executor).__name__} cannot run a task: {failure_of(error).message}",
            hint="its processes must get the function: Dask and Ray send it by value, ProcessPoolExecutor only what "
            "can be imported",
        ) from error


def store_entries(entries: cache.Entries) -> None:
    """Stores entries of another machine's compile cache in the one of this process."""
    for (key, suffix), content in entries.items():
        if cache.lookup(key, suffix) != content:
            cache.store(key, suffix, content)
