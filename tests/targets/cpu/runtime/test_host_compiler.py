import shutil
import struct
import tempfile
import threading
from pathlib import Path

import pytest

from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug, Loc, ToolchainError
from tilelang.options import CompileOptions
from tilelang.targets.cpu.runtime import toolchain
from tilelang.targets.cpu.runtime.host_compiler import build, identity

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path / "cache"


def source(text: str = "return int32_t(n + 1);", **more: object) -> Source:
    head = f'#include <cstdint>\nextern "C" int32_t twice(int64_t n) {{\n    {text}\n}}\n'
    return Source("cpp", head, "twice", **more)  # type: ignore[arg-type]


def compiler_that(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> str:
    """A compiler that passes its examination and treats kernels as the script says."""
    path = folder / "mycc"
    path.write_text(f'#!/bin/sh\ncase "$*" in *probe.cpp*) exec c++ "$@";; esac\n{script}\n')
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    toolchain._examine.cache_clear()
    return str(path)


def test_a_source_becomes_a_function() -> None:
    assert 42 == build(source()).start(struct.pack("<q", 41))


def test_the_same_source_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(source())
    monkeypatch.setattr("subprocess.run", None)
    assert first.path == build(source()).path
    assert first.path == build(Source("cpp", "// another remark\n" + source().text, "twice")).path


def test_options_take_part_in_the_cache_key() -> None:
    paths = {
        build(source(), CompileOptions.from_user(configs, flags)).path
        for configs in ({}, {"tl.enable_fast_math": True})
        for flags in ("", "-O1")
    }
    assert 4 == len(paths)
    assert identity(CompileOptions()) != identity(CompileOptions(compile_flags=("-O1",)))


def test_fast_math_keeps_nan() -> None:
    text = "volatile double x = 0.0; double y = x / x; return y != y;"
    assert 1 == build(source(text), CompileOptions.from_user({"tl.enable_fast_math": True})).start(struct.pack("<q", 0))


def test_user_flags_reach_the_compiler() -> None:
    assert 7 == build(source("return SEVEN;"), CompileOptions(compile_flags=("-DSEVEN=7",))).start(struct.pack("<q", 0))


def test_a_damaged_entry_is_built_again(folder: Path) -> None:
    path = build(source("return 5;")).path
    whole = path.read_bytes()
    path.unlink()  # what is open in this process stays as it is
    path.write_bytes(whole[:100])
    assert 5 == build(source("return 5;")).start(struct.pack("<q", 0))
    assert len(whole) == path.stat().st_size


def test_without_the_cache_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", False)
    toolchain._examine.cache_clear()
    assert 42 == build(source()).start(struct.pack("<q", 41))
    assert not folder.exists()
    assert [] == list(folder.parent.glob("tilelang-*"))


def test_threads_may_build_and_call_at_once() -> None:
    results: list[int] = []

    def work() -> None:
        entry = build(source())
        results.extend(entry.start(struct.pack("<q", n)) - n for n in range(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [1] * 400 == results


def test_rejected_generated_code_is_a_compiler_bug_with_its_location(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text("one\ntwo = oops\n")
    loc = Loc(str(tmp_path / "user.py"), 2, 0, 2, 3)
    with pytest.raises(CompilerBug) as caught:
        build(source("return nonsense;", lines={2: loc}))
    message = str(caught.value)
    assert "rejected the code generated for kernel 'twice', which is a bug in tilelang: generated line 3: " in message
    assert "    return nonsense;\n" in message
    assert "1 | one" not in message
    assert "2 | two = oops" in message
    kept = next(tmp_path.glob("tilelang-*/kernel.cpp"))
    assert f"the generated source is {kept}; the command was" in message
    assert kept.read_text().startswith(source("return nonsense;").text)


def test_code_rejected_with_user_flags_is_an_error_of_the_flags() -> None:
    with pytest.raises(ToolchainError) as caught:
        build(source("return nonsense;"), CompileOptions(compile_flags=("-DX",)))
    assert "rejected kernel 'twice' compiled with ['-DX']" in str(caught.value)
    assert "hint: leave compile_flags out, or correct them" in str(caught.value)


def test_flags_that_the_compiler_does_not_know_are_named() -> None:
    with pytest.raises(ToolchainError) as caught:
        build(source(), CompileOptions(compile_flags=("--no-such-flag",)))
    assert "failed with status 1 while compiling kernel 'twice'" in str(caught.value)
    assert "hint: check compile_flags=['--no-such-flag']" in str(caught.value)


def test_a_compiler_that_is_killed_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiler_that(tmp_path, monkeypatch, "kill -SEGV $$")
    with pytest.raises(ToolchainError) as caught:
        build(source("return 1;"))
    assert f"{path}: was killed by signal 11 while compiling kernel 'twice'" == caught.value.message


def test_a_compiler_that_crashes_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiler_that(tmp_path, monkeypatch, "echo 'internal compiler error' >&2; exit 4")
    with pytest.raises(ToolchainError) as caught:
        build(source("return 2;"))
    expected = f"{path}: failed with status 4 while compiling kernel 'twice'\ninternal compiler error"
    assert expected == caught.value.message


def test_verbose_shows_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    build(source("return 3;"), CompileOptions(verbose=True))
    assert "kernel.cpp" in capfd.readouterr().err
