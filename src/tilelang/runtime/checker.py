"""Loads `call_checker.cpp`, and passes it the objects of Python, NumPy and torch that it needs.

Invariant: it is only loaded if the object layouts of this Python and NumPy are those that it reads.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tilelang.records import record

CHECKER_TEXT = Path(__file__).with_name("call_checker.cpp")
# in the order of `Python` in call_checker.cpp; all are functions of the stable ABI
_FUNCTIONS = (
    "PyTuple_GetItem", "PyList_New", "PyList_SetItem", "PyTuple_Size", "PyLong_AsLongLong",
    "PyLong_AsUnsignedLongLong", "PyFloat_AsDouble", "PyLong_FromLongLong", "PyErr_Occurred", "PyErr_Clear",
    "PyObject_Call", "PyObject_CallFunctionObjArgs", "PyObject_IsTrue", "Py_IncRef", "Py_DecRef",
    "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
_VARARGS = 1  # Source: Python/C API Reference, METH_VARARGS
HEAD_BYTES = object.__basicsize__  # PyObject: a count, then the type
_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)


class _MethodDef(ctypes.Structure):
    """Source: Python/C API Reference, PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Checker:
    """The loaded checker.

    Args:
        path: The shared object.

    Attributes:
        library: All functions of the shared object.

    Raises:
        OSError: The system's loader refuses it.
    """

    def __init__(self, path: str) -> None:
        self.library = ctypes.PyDLL(path)
        functions = (ctypes.c_void_p * len(_FUNCTIONS))(*(address_of(ctypes.pythonapi, name) for name in _FUNCTIONS))
        self.library.tilelang_prepare(functions)
        self._add_plan = self.library.tilelang_add_plan
        self._add_plan.argtypes, self._add_plan.restype = [ctypes.c_void_p, ctypes.c_void_p], None
        # function objects point to the definition, and may outlive this object
        entry = address_of(self.library, "tilelang_call")
        self._definition = _MethodDef(b"call", entry, _VARARGS, b"Checks the arguments and starts the kernel.")
        _NEVER_FREED.append((self.library, self._definition))
        self._new = ctypes.pythonapi["PyCFunction_NewEx"]
        self._new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        self._new.restype = ctypes.py_object

    def function(self, state: tuple[Any, ...]) -> Callable[..., Any]:
        """A Python function of the arguments of a call; `state` is as listed under `Item` in call_checker.cpp."""
        function: Callable[..., Any] = self._new(ctypes.addressof(self._definition), state, None)
        return function

    def add_plan(self, kernel: int, plan: int) -> None:
        """Adds a plan to the table of a kernel; both by address."""
        self._add_plan(kernel, plan)


_NEVER_FREED: list[Any] = []


def address_of(library: Any, name: str) -> int:
    """The address of a function of a library."""
    return ctypes.cast(library[name], ctypes.c_void_p).value or 0


def supports_python() -> bool:
    """Whether this Python's objects have the layout that the checker reads, and it has a GIL."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little":
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    read = ctypes.c_size_t.from_address
    samples: tuple[object, ...] = (1, 1.5, "text", Checker)
    return all(read(id(x) + HEAD_BYTES - _POINTER_BYTES).value == id(type(x)) for x in samples)


class _NumpyArray(ctypes.Structure):
    """Source: NumPy C-API, PyArrayObject, after the object's head."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


def supports_numpy() -> bool:
    """Whether NumPy arrays have the layout that the checker reads."""
    samples: list[np.ndarray] = [np.zeros(3), np.zeros((2, 3), np.int8)[1:], np.zeros((4, 0, 2), np.float16)]
    samples[0].flags.writeable = False
    return all(map(_has_expected_layout, samples))


def _has_expected_layout(array: np.ndarray) -> bool:
    header = _NumpyArray.from_address(id(array) + HEAD_BYTES)
    expected = (array.__array_interface__["data"][0], array.ndim, id(array.dtype), array.flags.num)
    if (header.data, header.rank, header.dtype, header.flags & 0xFFFF) != expected:
        return False
    return (tuple(header.shape[: array.ndim]), tuple(header.strides[: array.ndim])) == (array.shape, array.strides)


# -- DLPack exchange of torch ---------------------------------------------------------------------------
@record
class DlpackExchange:
    """A framework's C functions for DLPack exchange.

    Attributes:
        tensor_of: From an object to a DLTensor.
        stream_of: From a device to the stream on which the framework works.
    """

    tensor_of: int
    stream_of: int


class _DlpackExchangeApi(ctypes.Structure):
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


def dlpack_exchange(tensor_type: type) -> DlpackExchange | None:
    """The functions of a tensor type; None if it has none, like torch before 2.10."""
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
        table = _DlpackExchangeApi.from_address(address)
        if table.major == _MAJOR:
            exchange = DlpackExchange(table.tensor_from_object or 0, table.current_work_stream or 0)
            return exchange if exchange.tensor_of and exchange.stream_of else None
        address = table.previous
    return None
