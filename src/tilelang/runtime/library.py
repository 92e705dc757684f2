"""Opens compiled shared objects and gives their entry point as something Python can call."""

from __future__ import annotations

import ctypes
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
    _limit_threads(library)
    return Entry(library, name, path)


def _limit_threads(library: ctypes.CDLL) -> None:
    """Obeys TILELANG_NUM_THREADS, through the OpenMP runtime that the library is linked with."""
    count = num_threads()
    if count is None or not hasattr(library, "omp_set_num_threads"):
        return
    library.omp_set_num_threads.argtypes = [ctypes.c_int]
    library.omp_set_num_threads.restype = None
    library.omp_set_num_threads(count)
