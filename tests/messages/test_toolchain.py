"""The whole text of every message about compilers and the cache."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import Loc, ProgramWarning, TileLangError, ToolchainError
from tilelang.ir.func import PrimFunc
from tilelang.jit import program
from tilelang.targets.cpu.runtime import toolchain

INSTALL = (
    "install g++ (`apt install g++`, `dnf install gcc-c++`, `xcode-select --install`), or `pip install ziglang`, "
    "or set CXX to a C++ compiler (`CXX=clang++ python ...`)"
)


def kernel() -> PrimFunc:
    """A kernel that nothing has compiled before."""

    @T.prim_func
    def main(A: T.Tensor((3,), "float32")):
        with T.Kernel(3) as bx:
            A[bx] = 41.5

    return main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, before a process that has compiled nothing."""
    monkeypatch.setattr("tilelang.jit.program._PROGRAMS", {})
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    toolchain._examine.cache_clear()
    return tmp_path


def script(folder: Path, text: str) -> str:
    """A compiler that is a shell script."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def refused(kind: type[TileLangError]) -> str:
    with pytest.raises(kind) as caught:
        tilelang.compile(kernel(), target="cpu")
    return str(caught.value)


def test_no_compiler_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert (
        "no C++ compiler found: CXX is not set, and none of c++, g++, clang++ and the package ziglang is there\n"
        f"hint: {INSTALL}"
    ) == refused(ToolchainError)


def test_a_compiler_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++ -m64")
    assert f"CXX=/nowhere/g++ -m64: no such program\nhint: unset CXX, or {INSTALL}" == refused(ToolchainError)


def test_a_command_line_that_does_not_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ 'x")
    assert (
        "CXX=g++ 'x: not a command line: No closing quotation\n"
        "hint: write CXX as in a shell: a program and its options"
    ) == refused(ToolchainError)


def test_a_compiler_that_compiles_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = script(folder, "echo no license >&2; exit 1")
    monkeypatch.setenv("CXX", compiler)
    assert (
        f"{compiler}: cannot compile a C++ function into a shared object\nno license\nhint: {INSTALL}"
    ) == refused(ToolchainError)


@pytest.mark.parametrize(
    ("fails", "what"),
    [
        ("kill -SEGV $$", "was killed by signal 11"),
        ("echo internal compiler error; exit 4", "failed with status 4"),
        ("exit 0", "wrote no file"),
    ],
)
def test_a_compiler_that_crashes_on_the_kernel(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fails: str, what: str
) -> None:
    compiler = script(folder, f'case "$*" in *probe.cpp*) exit 0;; esac\n{fails}')
    monkeypatch.setenv("CXX", compiler)
    message = re.sub(r"/\S*/(kernel\.\w+)", r"\1", refused(ToolchainError).replace(compiler, "compiler"))
    said = "internal compiler error\n" if "echo" in fails else ""
    place = Loc.render(kernel().loc)
    flags = next(line for line in message.splitlines() if line.startswith("compiler -"))
    assert (
        f"compiler: {what} while compiling kernel 'main_'\n{said}{place}\n"
        f"note: the generated source is kernel.cpp; the command was\n{flags}\n"
        "hint: set CXX to another C++ compiler (`CXX=clang++ python ...`)"
    ) == message
    assert flags.endswith("kernel.cpp -o kernel.so")


def test_a_cache_folder_that_cannot_be_written_is_one_warning_at_the_user_s_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(folder / "file"))
    monkeypatch.setattr("tilelang.runtime.cache._UNUSABLE", set())
    array = np.zeros(3, np.float32)
    with pytest.warns(ProgramWarning) as caught:
        line = sys._getframe().f_lineno + 1
        compiled = tilelang.compile(kernel(), target="cpu")
    compiled(array)
    assert [
        f"compile cache: cannot write to {folder / 'file'}: Not a directory; "
        "kernels are compiled again in every process\n"
        f"{' ' * len(str(line))}--> {__file__}:{line}:20\n"
        f'{line} |         compiled = tilelang.compile(kernel(), target="cpu")\n'
        f"{' ' * len(str(line))} |                    {'^' * 40}\n"
        "hint: set TILELANG_CACHE_DIR to a folder that can be written, or TILELANG_DISABLE_CACHE=1"
    ] == [str(warning.message) for warning in caught]


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:100], lambda b: b[:300] + b"\xff\x00" + b[302:]])
def test_damaged_entries_of_every_kind_are_made_again(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    for _ in range(2):
        array = np.zeros(3, np.float32)
        tilelang.compile(kernel(), target="cpu")(array)
        assert [41.5] * 3 == array.tolist()
        entries = [path for path in (folder / "cache").rglob("*") if path.is_file()]
        assert {".so", ".source", ".compiler"} == {path.suffix for path in entries}
        for path in entries:
            content = path.read_bytes()
            path.unlink()  # the old file is still mapped by this process
            path.write_bytes(damage(content))
        toolchain._examine.cache_clear()
        program._PROGRAMS.clear()
