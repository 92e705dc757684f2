import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_cuda import needs_nvrtc

import tilelang
from tilelang.errors import ToolchainError
from tilelang.ir.func import PrimFunc
from tilelang.jit import processes, program
from tilelang.jit.processes import warm_cache

Make = Callable[..., PrimFunc]
pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(program, "_PROGRAMS", {})
    return tmp_path / "cache"


def test_every_item_is_made_once_in_some_process(tmp_path: Path) -> None:
    def make(item: int) -> None:
        with open(tmp_path / f"{item}.{os.getpid()}", "x"):
            time.sleep(0.01)

    warm_cache(make, range(8), 3)
    names = sorted(path.name.split(".") for path in tmp_path.glob("*.*"))
    assert [str(n) for n in range(8)] == [item for item, _ in names]
    assert str(os.getpid()) not in {process for _, process in names}


def test_a_process_that_fails_or_prints_has_no_effect(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def make(item: int) -> None:
        print("loud")
        if item == 0:
            raise ValueError
        if item == 1:
            os.abort()
        (tmp_path / f"made{item}").touch()

    warm_cache(make, range(6), 2)
    assert {"made2", "made3", "made4", "made5"} == {path.name for path in tmp_path.glob("made*")}
    assert "loud" not in capfd.readouterr().out


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PATIENCE_SECONDS", 0.2)
    start = time.monotonic()
    warm_cache(lambda item: time.sleep(60), range(2), 2)
    assert time.monotonic() - start < 10
    assert [] == multiprocessing.active_children()


def test_without_the_cache_no_process_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", False)
    warm_cache(lambda item: (tmp_path / "made").touch(), range(2), 2)
    assert not (tmp_path / "made").exists()


@needs_nvrtc
def test_kernels_for_a_gpu_are_compiled_in_processes(vector_add: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()

    def compiled_here(*args: object, **keywords: object) -> None:
        raise ToolchainError("compiled in the asking process") if os.getpid() == here else AssertionError

    funcs = [vector_add(n) for n in (64, 128, 192)]
    assert 3 == len(tilelang.par_compile(funcs, target="sm_80", num_workers=2))
    monkeypatch.setattr(program, "_PROGRAMS", {})
    monkeypatch.setattr("tilelang.targets.nvidia.runtime.device_code._compile", compiled_here)
    kernels = tilelang.par_compile(funcs, target="sm_80", num_workers=1)
    assert ["sm_80"] * 3 == [kernel.target.arch for kernel in kernels if kernel is not None]


@needs_nvrtc
def test_errors_come_from_the_asking_process(vector_add: Make) -> None:
    funcs = [vector_add(64), vector_add(128)]
    flags = {"target": "sm_80", "num_workers": 2, "compile_flags": ["--foo"]}
    with pytest.raises(ToolchainError, match="unrecognized option --foo"):
        tilelang.par_compile(funcs, **flags)
    assert [None, None] == tilelang.par_compile(funcs, ignore_error=True, **flags)
