import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tilelang.errors import ToolchainError
from tilelang.targets.cpu.runtime import toolchain
from tilelang.targets.cpu.runtime.toolchain import Compiler, find_compiler, processor

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    toolchain._examine.cache_clear()


def program(folder: Path, name: str, text: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_compiler_on_the_path_is_found_and_probed() -> None:
    compiler = find_compiler()
    assert (shutil.which("c++"),) == compiler.command
    assert set(compiler.flags) <= set(toolchain._OPTIONAL)
    assert compiler.openmp == ("-fopenmp" in compiler.flags)


def test_cxx_comes_first_and_may_have_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", f"{shutil.which('c++')} -DX")
    assert (shutil.which("c++"), "-DX") == find_compiler().command


def test_cxx_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolchainError) as caught:
        find_compiler()
    assert (
        "CXX=no-such-compiler: no such program\n"
        "hint: unset CXX, or install g++ (`apt install g++`, `dnf install gcc-c++`, `xcode-select --install`), "
        "or `pip install ziglang`, or set CXX to a C++ compiler (`CXX=clang++ python ...`)"
    ) == str(caught.value)


def test_no_compiler_at_all_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolchainError) as caught:
        find_compiler()
    assert (
        "no C++ compiler found: CXX is not set, and none of c++, g++, clang++ and the package ziglang is there\n"
        "hint: install g++ (`apt install g++`, `dnf install gcc-c++`, `xcode-select --install`), "
        "or `pip install ziglang`, or set CXX to a C++ compiler (`CXX=clang++ python ...`)"
    ) == str(caught.value)


def test_ziglang_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(toolchain, "_examine", lambda command: Compiler(command, "", ()))
    assert (sys.executable, "-m", "ziglang", "c++") == find_compiler().command


CANNOT_LINK = "for a in \"$@\"; do [ \"$a\" = -shared ] && { echo 'ld: cannot open libstdc++.so' >&2; exit 1; }; done"


def test_a_compiler_that_cannot_link_gives_way_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = program(tmp_path / "bin", "c++", CANNOT_LINK)
    works = program(tmp_path / "other", "c++", f'exec {shutil.which("c++")} "$@"')
    program(tmp_path / "other", "g++", "exit 1")
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), str(tmp_path / "other"), os.environ["PATH"]]))
    assert (works,) == find_compiler().command
    Path(works).unlink()
    assert find_compiler().command not in [(broken,), (works,)]


def test_the_error_of_the_last_compiler_that_cannot_link_has_the_logs_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [program(tmp_path / folder, "g++", CANNOT_LINK) for folder in ("bin", "other")]
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), str(tmp_path / "other"), str(tmp_path / "bin")]))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolchainError) as caught:
        find_compiler()
    what = "cannot compile a C++ function into a shared object\nld: cannot open libstdc++.so"
    assert "\n".join(f"{path}: {what}" for path in paths) == caught.value.message
    assert caught.value.hint.endswith("or set CXX to a C++ compiler (`CXX=clang++ python ...`)")


def test_a_known_compiler_is_not_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = find_compiler()
    toolchain._examine.cache_clear()
    monkeypatch.setattr("subprocess.run", None)
    assert first == find_compiler()


def test_a_replaced_compiler_is_probed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "bin", "mycc", f'exec {shutil.which("c++")} "$@"')
    monkeypatch.setenv("CXX", path)
    first = find_compiler()
    toolchain._examine.cache_clear()
    program(tmp_path / "bin", "mycc", f'exec {shutil.which("c++")} "$@" # another version')
    assert first.identity != find_compiler().identity


def test_flags_that_the_compiler_does_not_know_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'for a in "$@"; do [ "$a" = -fopenmp ] && exit 1; done; exec {shutil.which("c++")} "$@"'
    monkeypatch.setenv("CXX", program(tmp_path / "bin", "plaincc", text))
    compiler = find_compiler()
    assert not compiler.openmp
    assert "-march=native" in compiler.flags


def test_a_compiler_that_cannot_compile_is_an_error_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(tmp_path / "bin", "brokencc", "echo 'no licence' >&2; exit 3")
    monkeypatch.setenv("CXX", path)
    with pytest.raises(ToolchainError) as caught:
        find_compiler()
    assert f"{path}: cannot compile a C++ function into a shared object\nno licence" == caught.value.message


def test_probed_properties_of_a_compiler_are_stored_as_json(tmp_path: Path) -> None:
    compiler = find_compiler()
    (kept,) = (tmp_path / "cache").rglob("*.compiler")
    assert list(compiler.flags) == json.JSONDecoder().raw_decode(kept.read_text())[0]


def test_the_processor_has_a_stable_name() -> None:
    assert processor() == processor()
    assert os.uname().machine in processor()
