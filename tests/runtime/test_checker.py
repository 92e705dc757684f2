import ctypes
from typing import Any

import pytest

from tilelang.runtime import checker
from tilelang.runtime.checker import dlpack_exchange, supports_numpy, supports_python


def test_this_python_and_this_numpy_are_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert supports_python()
    assert supports_numpy()
    monkeypatch.setattr(checker, "HEAD_BYTES", checker.HEAD_BYTES + 8)
    assert not supports_python()
    assert not supports_numpy()


def test_a_python_without_gil_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    assert not supports_python()


# -- what torch gives ----------------------------------------------------------------------------------------
_new_capsule = ctypes.pythonapi["PyCapsule_New"]
_new_capsule.argtypes, _new_capsule.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object


def lender(table: checker._DlpackExchangeApi, name: bytes = b"dlpack_exchange_api") -> type:
    capsule = _new_capsule(ctypes.addressof(table), name, None)
    return type("Tensor", (), {"__dlpack_c_exchange_api__": capsule})


def table(major: int = 1, tensor_of: int = 5, stream_of: int = 6, previous: int = 0) -> checker._DlpackExchangeApi:
    return checker._DlpackExchangeApi(major, 3, previous, 1, 2, 3, tensor_of, stream_of)


def test_the_functions_are_found_by_the_version_of_their_table() -> None:
    first = table()
    found = dlpack_exchange(lender(first))
    assert found is not None
    assert (5, 6) == (found.tensor_of, found.stream_of)
    newer = table(major=2, tensor_of=7, previous=ctypes.addressof(first))
    assert found == dlpack_exchange(lender(newer))


@pytest.mark.parametrize("lent", [table(major=2), table(tensor_of=0), table(stream_of=0)])
def test_tables_without_what_is_needed_are_not_used(lent: Any) -> None:
    assert dlpack_exchange(lender(lent)) is None


def test_types_without_a_table_have_no_functions() -> None:
    assert dlpack_exchange(int) is None
    assert dlpack_exchange(lender(table(), b"something")) is None
    assert dlpack_exchange(type("Tensor", (), {"__dlpack_c_exchange_api__": 3})) is None
