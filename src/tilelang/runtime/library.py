"""Opens compiled shared objects and gives their entry point as something Python can call."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilelang.errors import CompilerBug, ToolchainError
from tilelang.options import num_threads

POINTER = ctypes.c_void_p
INTEGER = ctypes.c_int64
FLOAT = ctypes.c_double


@dataclass(frozen=True)
class Entry:
    """The entry point of an opened shared object.

    Attributes:
        library: The open library; keeps the code mapped.
        name: The entry's name.
        path: Where the shared object lies, or lay.
    """

    library: ctypes.CDLL
    name: str
    path: Path

    def typed(self, argument_types: Sequence[type]) -> Callable[..., int]:
        """The entry as a function of C arguments of these types; the interpreter lock is free while it runs."""
        # a fresh function object each time, since argument types belong to the object
        function = self.library[self.name]
        function.argtypes = list(argument_types)
        function.restype = ctypes.c_int32
        return function


def open_entry(path: Path, name: str) -> Entry:
    """Opens a shared object and finds its entry.

    Raises:
        ToolchainError: The system's loader refuses the file.
        CompilerBug: The entry is not there.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolchainError(f"cannot load the compiled kernel {path}: {error}") from None
    if not hasattr(library, name):
        raise CompilerBug(f"the compiled kernel {path} has no function {name!r}")
    _prepare_threads(library)
    return Entry(library, name, path)


_OPENMP: list[Callable[[int], None]] = []  # `omp_set_num_threads` of the OpenMP runtime in use, once there is one


def _prepare_threads(library: ctypes.CDLL) -> None:
    """Obeys TILELANG_NUM_THREADS, and makes kernels safe in forked children, through the library's OpenMP runtime."""
    if not hasattr(library, "omp_set_num_threads"):
        return
    set_threads = library.omp_set_num_threads
    set_threads.argtypes, set_threads.restype = [ctypes.c_int], None
    if not _OPENMP:
        _OPENMP.append(set_threads)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_use_one_thread)
    count = num_threads()
    if count is not None:
        set_threads(count)


def _use_one_thread() -> None:
    """In a forked child the threads of the parent are gone, but OpenMP would wait for them."""
    for set_threads in _OPENMP:
        set_threads(1)
