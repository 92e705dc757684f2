import ctypes
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tilelang.errors import ProgramWarning
from tilelang.targets.nvidia.runtime import native_launcher
from tilelang.targets.nvidia.runtime.native_launcher import Builder, Launcher, build, exchange_of, is_known_python

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)


@needs_compiler
def test_the_launcher_is_compiled_once_and_then_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(build(), Launcher)
    monkeypatch.setattr(native_launcher, "_compiled", lambda command: pytest.fail("compiled again"))
    assert isinstance(build(), Launcher)


@needs_compiler
def test_without_a_cache_it_is_compiled_every_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tilelang.runtime.cache._UNUSABLE", set())
    with pytest.warns(ProgramWarning, match="Not a directory; kernels are compiled anew"):
        assert isinstance(build(), Launcher)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert isinstance(build(), Launcher)


@needs_compiler
def test_the_text_has_no_warnings_and_needs_no_library(tmp_path: Path) -> None:
    output = str(tmp_path / "launcher.so")
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,-z,defs"]
    subprocess.run(["c++", *flags, str(native_launcher._TEXT), "-o", output], check=True)


def test_without_a_compiler_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("no-such-compiler", shutil.which("false") or "false"):
        monkeypatch.setenv("CXX", command)
        assert build() is None


def test_an_unknown_python_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_known_python()
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    assert not is_known_python()
    assert build() is None
    monkeypatch.undo()
    monkeypatch.setattr(native_launcher, "TYPE_OFFSET", 0)
    assert not is_known_python()


# -- what torch gives ----------------------------------------------------------------------------------------
_new_capsule = ctypes.pythonapi["PyCapsule_New"]
_new_capsule.argtypes, _new_capsule.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object


def lender(table: native_launcher._Table, name: bytes = b"dlpack_exchange_api") -> type:
    capsule = _new_capsule(ctypes.addressof(table), name, None)
    return type("Tensor", (), {"__dlpack_c_exchange_api__": capsule})


def table(major: int = 1, tensor_of: int = 5, stream_of: int = 6, previous: int = 0) -> native_launcher._Table:
    return native_launcher._Table(major, 3, previous, 1, 2, 3, tensor_of, stream_of)


def test_the_functions_are_found_by_the_version_of_their_table() -> None:
    first = table()
    found = exchange_of(lender(first))
    assert found is not None
    assert (5, 6) == (found.tensor_of, found.stream_of)
    newer = table(major=2, tensor_of=7, previous=ctypes.addressof(first))
    assert found == exchange_of(lender(newer))


@pytest.mark.parametrize("lent", [table(major=2), table(tensor_of=0), table(stream_of=0)])
def test_tables_without_what_is_needed_are_not_used(lent: Any) -> None:
    assert exchange_of(lender(lent)) is None


def test_types_without_a_table_have_no_functions() -> None:
    assert exchange_of(int) is None
    assert exchange_of(lender(table(), b"something")) is None
    assert exchange_of(type("Tensor", (), {"__dlpack_c_exchange_api__": 3})) is None


# -- the background ------------------------------------------------------------------------------------------
def test_building_happens_once_in_the_background_and_wakes_who_asked() -> None:
    go, here, woken = threading.Event(), threading.current_thread(), threading.Event()
    builds: list[threading.Thread] = []
    launcher: Any = object()

    def slow() -> Any:
        builds.append(threading.current_thread())
        assert go.wait(5)
        return launcher

    builder = Builder(slow)
    builder.when_ready(woken.set)
    assert [] == builds
    builder.start()
    builder.start()
    assert builder.get() is None
    assert not woken.is_set()
    go.set()
    assert woken.wait(5)
    assert launcher is builder.get()
    assert 1 == len(builds)
    assert here is not builds[0]
    late = threading.Event()
    builder.when_ready(late.set)
    assert late.is_set()


def test_a_launcher_that_cannot_be_wakes_nobody() -> None:
    builder, woken = Builder(lambda: None), threading.Event()
    builder.when_ready(woken.set)
    builder.start()
    for thread in threading.enumerate():
        if thread.name == "tilelang-launcher":
            thread.join(5)
    builder.when_ready(woken.set)
    assert not woken.is_set()
    assert builder.get() is None


def test_no_thread_means_no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    builder, woken = Builder(lambda: None), threading.Event()
    builder.start()
    builder.when_ready(woken.set)
    assert (None, False) == (builder.get(), woken.is_set())
