"""The launcher in machine code: `launcher.cpp`, compiled once per machine and loaded, and what torch gives to it.

Takes the host's C++ compiler and the compile cache, gives a `Launcher` as soon as there is one. Invariant: nobody waits
for it, and nothing fails without it: no compiler, no cache, or a Python that it does not know mean that calls take
another way.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilelang.errors import ToolchainError
from tilelang.options import temporary_folder
from tilelang.records import record
from tilelang.runtime import cache

_TEXT = Path(__file__).with_name("launcher.cpp")
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-w")
# in the order of `Python` in launcher.cpp; all are functions of the stable ABI
_FUNCTIONS = (
    "PyTuple_GetItem", "PyList_New", "PyList_SetItem", "PyTuple_Size", "PyLong_AsLongLong",
    "PyLong_AsUnsignedLongLong", "PyFloat_AsDouble", "PyLong_FromLongLong", "PyErr_Occurred", "PyErr_Clear",
    "PyObject_Call", "PyObject_CallFunctionObjArgs", "PyObject_IsTrue", "Py_IncRef", "Py_DecRef",
    "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
_VARARGS = 1  # Source: Python/C API Reference, METH_VARARGS
TYPE_OFFSET = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)  # PyObject: a count, then the type


class _MethodDef(ctypes.Structure):
    """Source: Python/C API Reference, PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Launcher:
    """The loaded launcher.

    Args:
        path: The shared object.

    Raises:
        OSError: The system's loader refuses it.
    """

    def __init__(self, path: str) -> None:
        library = ctypes.PyDLL(path)
        functions = (ctypes.c_void_p * len(_FUNCTIONS))(*(address_of(ctypes.pythonapi, name) for name in _FUNCTIONS))
        library.tilelang_prepare(functions)
        self._learn = library.tilelang_learn
        self._learn.argtypes, self._learn.restype = [ctypes.c_void_p, ctypes.c_void_p], None
        # a function object points to its definition, so this must live as long as any of them
        entry = address_of(library, "tilelang_call")
        self._definition = _MethodDef(b"call", entry, _VARARGS, b"Checks the arguments at a glance and launches.")
        _KEPT.append((library, self._definition))
        self._new = ctypes.pythonapi["PyCFunction_NewEx"]
        self._new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        self._new.restype = ctypes.py_object

    def function(self, state: tuple[Any, ...]) -> Callable[..., Any]:
        """A function of a call's arguments; `state` is what launcher.cpp says under `Item`."""
        made: Callable[..., Any] = self._new(ctypes.addressof(self._definition), state, None)
        return made

    def learn(self, kernel: int, plan: int) -> None:
        """Puts the plan at one address into the table of the kernel at another."""
        self._learn(kernel, plan)


_KEPT: list[Any] = []


def address_of(library: Any, name: str) -> int:
    """Where a function of a library lies."""
    return ctypes.cast(library[name], ctypes.c_void_p).value or 0


def is_known_python() -> bool:
    """Whether objects are laid out as the launcher reads them, and one thread at a time runs Python."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little":
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    samples: tuple[object, ...] = (1, 1.5, "text", Launcher)
    return all(ctypes.c_size_t.from_address(id(x) + TYPE_OFFSET).value == id(type(x)) for x in samples)


# -- what torch gives ----------------------------------------------------------------------------------------
@record
class Exchange:
    """Functions by which a framework lends its tensors, without Python in between.

    Attributes:
        tensor_of: From an object to a DLTensor.
        stream_of: From a device to the stream on which the framework works.
    """

    tensor_of: int
    stream_of: int


class _Table(ctypes.Structure):
    """Source: dlpack.h of DLPack 1.3, struct DLPackExchangeAPI."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from_object", ctypes.c_void_p),
        ("object_from_managed", ctypes.c_void_p),
        ("tensor_from_object", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    )


_MAJOR = 1


def exchange_of(tensor_type: type) -> Exchange | None:
    """The functions of a type of tensors; None where it has none, as torch before 2.10."""
    capsule = getattr(tensor_type, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    get = ctypes.pythonapi["PyCapsule_GetPointer"]
    get.argtypes, get.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    try:
        address = get(capsule, b"dlpack_exchange_api")
    except (ValueError, ctypes.ArgumentError):
        return None
    while address:
        table = _Table.from_address(address)
        if table.major == _MAJOR:
            found = Exchange(table.tensor_from_object or 0, table.current_work_stream or 0)
            return found if found.tensor_of and found.stream_of else None
        address = table.previous
    return None


# -- building ------------------------------------------------------------------------------------------------
class Builder:
    """Compiles and loads the launcher, in the background.

    Args:
        build: What to do there; gives None where there can be no launcher.
    """

    def __init__(self, build: Callable[[], Launcher | None]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._started = self._done = False
        self._launcher: Launcher | None = None
        self._waiting: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begins, if nobody has begun; returns at once."""
        with self._lock:
            if self._started:
                return
            self._started = True
        try:
            threading.Thread(target=self._run, name="tilelang-launcher").start()
        except RuntimeError:  # no thread can be had: the process ends, or has too many
            self._done = True

    def get(self) -> Launcher | None:
        """The launcher, if it is there by now."""
        return self._launcher

    def when_ready(self, action: Callable[[], None]) -> None:
        """Does something once there is a launcher: at once, later in another thread, or never."""
        with self._lock:
            if not self._done:
                self._waiting.append(action)
                return
        if self._launcher is not None:
            action()

    def _run(self) -> None:
        try:
            self._launcher = self._build()
        finally:
            with self._lock:
                self._done = True
                waiting, self._waiting = self._waiting, []
        if self._launcher is not None:
            for action in waiting:
                action()


def build() -> Launcher | None:
    """The launcher, from the cache where possible; None where there can be none."""
    import platform  # noqa: PLC0415  what a first call needs loads none of what building needs

    from tilelang.targets.cpu.runtime.toolchain import find_command, fingerprint  # noqa: PLC0415

    if not is_known_python():
        return None
    try:
        command = find_command()
        key = cache.key_of(_text(), *command, *_FLAGS, fingerprint(command), platform.machine())
        # an open library outlives its file
        return cache.open_or_make(key, ".so", lambda: _compiled(command), lambda path: Launcher(str(path)))
    except (ToolchainError, OSError):
        return None


def _text() -> str:
    return _TEXT.read_text(encoding="utf-8")


def _compiled(command: tuple[str, ...]) -> bytes:
    import subprocess  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary_folder()) as folder:
        output = os.path.join(folder, "launcher.so")
        line = [*command, *_FLAGS, str(_TEXT), "-o", output]
        result = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
        if result.returncode:
            raise ToolchainError(f"cannot compile {_TEXT}: {result.stderr}")
        return Path(output).read_bytes()


BUILDER = Builder(build)
