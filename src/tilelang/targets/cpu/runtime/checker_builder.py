"""Compiles `call_checker.cpp`, once per machine and in the background.

Invariant: calls do not wait for it, and work without it: without a compiler, cache, or supported Python they are
checked in Python.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path

from tilelang.environment import temporary_folder
from tilelang.errors import ToolchainError
from tilelang.runtime import cache
from tilelang.runtime.checker import CHECKER_TEXT, Checker, supports_python

_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-w")


class CheckerBuilder:
    """Compiles and loads a checker, in the background.

    Args:
        build: Builds the checker; returns None if that is not possible.
    """

    def __init__(self, build: Callable[[], Checker | None]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._started = self._done = False
        self._checker: Checker | None = None
        self._waiting: list[Callable[[], None]] = []

    def start(self) -> None:
        """Starts the build once; returns immediately."""
        with self._lock:
            if self._started:
                return
            self._started = True
        try:
            threading.Thread(target=self._run, name="tilelang-checker").start()
        except RuntimeError:  # no thread can be started: the process is exiting, or has too many
            self._done = True

    def get(self) -> Checker | None:
        """The checker, if it is built."""
        return self._checker

    def when_ready(self, action: Callable[[], None]) -> None:
        """Calls a function when the checker is built: now, later in another thread, or never."""
        with self._lock:
            if not self._done:
                self._waiting.append(action)
                return
        if self._checker is not None:
            action()

    def _run(self) -> None:
        try:
            self._checker = self._build()
        finally:
            with self._lock:
                self._done = True
                waiting, self._waiting = self._waiting, []
        if self._checker is not None:
            for action in waiting:
                action()


def build(*more: Path) -> Checker | None:
    """The checker with further sources, from the cache if possible; None if it cannot be built."""
    from tilelang.targets.cpu.runtime.toolchain import find_compiler  # noqa: PLC0415  of no use to a first call

    if not supports_python():
        return None
    paths = (CHECKER_TEXT, *more)
    try:
        compiler = find_compiler()
        texts = [path.read_text(encoding="utf-8") for path in paths]
        key = cache.key_of(*texts, compiler.identity, *_FLAGS)
        make = functools.partial(_compiled, compiler.command, paths)
        # an open library outlives its file
        return cache.open_or_make(key, ".so", make, lambda path: Checker(str(path)))
    except (ToolchainError, OSError):
        return None


def _compiled(command: tuple[str, ...], paths: tuple[Path, ...]) -> bytes:
    import subprocess  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary_folder()) as folder:
        output = os.path.join(folder, "checker.so")
        line = [*command, *_FLAGS, *map(str, paths), "-o", output]
        result = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
        if result.returncode:
            raise ToolchainError(f"cannot compile {' '.join(map(str, paths))}: {result.stderr}")
        return Path(output).read_bytes()


BUILDER = CheckerBuilder(build)
