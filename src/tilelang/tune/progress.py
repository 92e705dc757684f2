"""The progress of a search as one line on the terminal, if there is one."""

from __future__ import annotations

import sys
import time
from types import TracebackType

_WIDTH = 24  # of the bar
_SECONDS = 0.1  # between two lines
_CLEAR = "\r\x1b[K"  # Source: ECMA-48, EL: erases the line


class Progress:
    """The progress line; a context manager that erases it at the end.

    Args:
        name: What is tuned.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._stream = sys.stderr
        self._on = bool(getattr(self._stream, "isatty", lambda: False)())
        self._start = time.monotonic()
        self._last = -_SECONDS

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._on:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def show(self, what: str, done: int, total: int) -> None:
        """Shows a step, and how much of it is done."""
        now = time.monotonic()
        if not self._on or now - self._last < _SECONDS and done < total:
            return
        self._last = now
        filled = _WIDTH * done // max(total, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        text = f"autotune {self._name}: {what} [{bar}] {done}/{total}  {now - self._start:.0f} s"
        self._stream.write(_CLEAR + text)
        self._stream.flush()
