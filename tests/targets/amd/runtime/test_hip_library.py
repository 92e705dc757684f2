import sys
from pathlib import Path

import pytest

from tilelang.targets.amd.runtime import hip_library
from tilelang.targets.amd.runtime.hip_library import find_library, open_library


@pytest.fixture(autouse=True)
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No library anywhere but below the test's folder."""
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages")])
    monkeypatch.setattr(hip_library, "_SYSTEM", ())
    monkeypatch.setattr(hip_library, "_MAPS", str(tmp_path / "no maps"))
    for name in ("ROCM_PATH", "HIP_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)


def library(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return str(path)


def test_there_may_be_none() -> None:
    assert find_library("hiprtc") is None


def test_a_wheel_comes_before_rocm_and_rocm_before_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path / 'nowhere'}:{tmp_path / 'rest'}")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    for place in ("rest/libhiprtc.so.6", "rocm/lib/libhiprtc.so.7", "packages/torch/lib/libhiprtc.so"):
        assert library(tmp_path / place) == find_library("hiprtc")
    assert find_library("amdhip64") is None


def test_the_plain_name_comes_before_numbered_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    for name in ("libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so"):
        assert library(tmp_path / "lib" / name) == find_library("amdhip64")


def test_windows_has_names_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("HIP_PATH", str(tmp_path))
    assert library(tmp_path / "bin" / "amdhip64_6.dll") == find_library("amdhip64")


def test_a_library_that_is_open_already_is_the_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    library(tmp_path / "lib" / "libamdhip64.so")
    maps = tmp_path / "maps"
    lines = ("/usr/lib/libc.so.6", "", "/opt/torch/lib/libamdhip64-3f9a.so.6", "/opt/torch/lib/libhiprtc.so.6")
    maps.write_text("".join(f"7f00-7f01 r-xp 00000000 00:00 1    {line}\n" for line in lines))
    monkeypatch.setattr(hip_library, "_MAPS", str(maps))
    assert "/opt/torch/lib/libamdhip64-3f9a.so.6" == find_library("amdhip64")
    assert "/opt/torch/lib/libhiprtc.so.6" == find_library("hiprtc")


def test_a_library_is_opened_by_its_path_or_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def only(name: str) -> str:
        asked.append(name)
        if name != "libamdhip64.so.6":
            raise OSError(name)
        return "opened"

    monkeypatch.setattr("ctypes.CDLL", only)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    damaged = library(tmp_path / "lib" / "libamdhip64.so")
    assert "opened" == open_library("amdhip64")
    assert [damaged, "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"] == asked
    assert open_library("hiprtc") is None
