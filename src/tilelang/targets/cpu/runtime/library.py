"""Opens compiled shared objects and finds their entry points."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tilelang.environment import num_threads
from tilelang.errors import CompilerBug, ToolchainError
from tilelang.records import record

# Appended to each kernel: its entry as a function of an array of values of 8 bytes each.
# `Plan::start` of call_checker.cpp; braces are evaluated in order.
START = "tilelang_start"
_START_TEXT = """
template <class T> static T tilelang_next(const unsigned long long *&values) {
  T value;
  __builtin_memcpy(&value, values++, sizeof value);
  return value;
}
struct tilelang_Called {
  int status;
  template <class... T> tilelang_Called(int (*entry)(T...), T... values) : status(entry(values...)) {}
};
template <class... T> static int tilelang_spread(int (*entry)(T...), const unsigned long long *values) {
  return tilelang_Called{entry, tilelang_next<T>(values)...}.status;
}
extern "C" long long tilelang_start(void *, const unsigned long long *values, void *) {
  return tilelang_spread(ENTRY, values);
}
"""


def start_text(entry: str) -> str:
    """The C++ text appended to a source with this entry."""
    return _START_TEXT.replace("ENTRY", entry)


@record
class Entry:
    """The entry point of an opened shared object.

    Attributes:
        library: The open library, which keeps the code mapped.
        name: The entry's name.
        path: Path of the shared object, which may have been deleted.
    """

    library: ctypes.CDLL
    name: str
    path: Path

    @property
    def address(self) -> int:
        """The function that starts the entry with values in memory."""
        return ctypes.cast(self.library[START], ctypes.c_void_p).value or 0

    def start(self, values: bytes) -> int:
        """Runs the entry with values of 8 bytes each, without the GIL."""
        status: int = self.library.tilelang_start(None, values, None)
        return status


def open_entry(path: Path, name: str) -> Entry:
    """Opens a shared object and finds its entry.

    Raises:
        ToolchainError: The system's loader refuses the file.
        CompilerBug: The entry is not there.
    """
    try:
        with _default_threads():
            library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolchainError(f"cannot load the compiled kernel {path}: {error}") from None
    if not hasattr(library, START):
        raise CompilerBug(f"the compiled kernel {path} has no function {START!r}")
    library.tilelang_start.argtypes, library.tilelang_start.restype = [ctypes.c_void_p] * 3, ctypes.c_int64
    _prepare_threads(library)
    return Entry(library, name, path)


@record(frozen=False)
class _OpenMp:
    """The OpenMP runtime of this process.

    Attributes:
        set_threads: `omp_set_num_threads`, once a library that uses the runtime has been opened.
        forked: Whether a process above this one had opened it: its threads are gone, but OpenMP would wait for them.
    """

    set_threads: Callable[[int], None] | None = None
    forked: bool = False

    def use_one_thread(self) -> None:
        """Called first in a forked child."""
        self.forked = True
        if self.set_threads is not None:
            self.set_threads(1)


_OPENMP = _OpenMp()  # two threads that open the first library at once both fill it in, to the same effect


@contextmanager
def _default_threads() -> Iterator[None]:
    """Sets TILELANG_NUM_THREADS as the default of an OpenMP runtime that is loaded inside.

    A runtime reads the environment when it is loaded; later settings affect only the calling thread.
    """
    count, given = num_threads(), os.environ.get("OMP_NUM_THREADS")
    if count is None or _OPENMP.set_threads is not None:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(count)
    try:
        yield
    finally:
        if given is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = given


def _prepare_threads(library: ctypes.CDLL) -> None:
    """Applies TILELANG_NUM_THREADS, and makes kernels safe in forked children."""
    if not hasattr(library, "omp_set_num_threads"):
        return
    set_threads = library.omp_set_num_threads
    set_threads.argtypes, set_threads.restype = [ctypes.c_int], None
    if _OPENMP.set_threads is None:
        _OPENMP.set_threads = set_threads
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_OPENMP.use_one_thread)
    count = num_threads()
    if count is not None and not _OPENMP.forked:
        set_threads(count)
