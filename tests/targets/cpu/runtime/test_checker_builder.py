import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tilelang.errors import ProgramWarning
from tilelang.runtime.checker import CHECKER_TEXT, Checker
from tilelang.targets.cpu.runtime import checker_builder
from tilelang.targets.cpu.runtime.checker_builder import CheckerBuilder, build
from tilelang.targets.gpu.runtime.native_launch import LAUNCH_TEXT

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)


@needs_compiler
def test_the_checker_is_compiled_once_and_then_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(build(), Checker)
    monkeypatch.setattr(checker_builder, "_compiled", lambda command, paths: pytest.fail("compiled again"))
    assert isinstance(build(), Checker)


@needs_compiler
def test_without_a_cache_it_is_compiled_every_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tilelang.runtime.cache._UNUSABLE", set())
    with pytest.warns(ProgramWarning, match="Not a directory; kernels are compiled again"):
        assert isinstance(build(), Checker)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert isinstance(build(), Checker)


@needs_compiler
@pytest.mark.parametrize("text", [CHECKER_TEXT, LAUNCH_TEXT], ids=lambda path: path.name)
def test_the_text_has_no_warnings_and_needs_no_library(tmp_path: Path, text: Path) -> None:
    output = str(tmp_path / "checker.so")
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,-z,defs"]
    subprocess.run(["c++", *flags, str(text), "-o", output], check=True)


def test_without_a_compiler_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("no-such-compiler", shutil.which("false") or "false"):
        monkeypatch.setenv("CXX", command)
        assert build() is None


def test_an_unknown_python_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    assert build() is None


# -- the background ------------------------------------------------------------------------------------------
def test_the_build_runs_once_in_the_background_and_calls_back() -> None:
    go, here, woken = threading.Event(), threading.current_thread(), threading.Event()
    builds: list[threading.Thread] = []
    checker: Any = object()

    def slow() -> Any:
        builds.append(threading.current_thread())
        assert go.wait(5)
        return checker

    builder = CheckerBuilder(slow)
    builder.when_ready(woken.set)
    assert [] == builds
    builder.start()
    builder.start()
    assert builder.get() is None
    assert not woken.is_set()
    go.set()
    assert woken.wait(5)
    assert checker is builder.get()
    assert 1 == len(builds)
    assert here is not builds[0]
    late = threading.Event()
    builder.when_ready(late.set)
    assert late.is_set()


def test_without_a_checker_nothing_is_called_back() -> None:
    builder, woken = CheckerBuilder(lambda: None), threading.Event()
    builder.when_ready(woken.set)
    builder.start()
    for thread in threading.enumerate():
        if thread.name == "tilelang-checker":
            thread.join(5)
    builder.when_ready(woken.set)
    assert not woken.is_set()
    assert builder.get() is None


def test_no_thread_means_no_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    builder, woken = CheckerBuilder(lambda: None), threading.Event()
    builder.start()
    builder.when_ready(woken.set)
    assert (None, False) == (builder.get(), woken.is_set())
