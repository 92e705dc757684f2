import pytest
from fake_hip import FakeHip

from tilelang.errors import DriverError, ToolchainError
from tilelang.targets.amd.runtime import findings as module
from tilelang.targets.amd.runtime.findings import findings
from tilelang.targets.amd.runtime.hip_driver import HipDriver


def test_what_is_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_driver", lambda: HipDriver(FakeHip(devices=2)))
    monkeypatch.setattr(module, "find_clang", lambda: "clang 22.1.8 (clang)")
    monkeypatch.setattr(module, "open_hiprtc", lambda: "hiprtc 6.2")
    assert [
        "found    HIP compiler (target hip): clang 22.1.8 (clang)",
        "found    hiprtc, another HIP compiler: hiprtc 6.2",
        "found    AMD GPU: Imaginary Instinct (gfx942), Imaginary Instinct (gfx942)",
    ] == [str(found) for found in findings()]


def test_what_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(kind: type[Exception], message: str) -> object:
        raise kind(message, hint="get it")  # type: ignore[call-arg]

    monkeypatch.setattr(module, "open_driver", lambda: absent(DriverError, "no HIP driver found"))
    monkeypatch.setattr(module, "find_clang", lambda: absent(ToolchainError, "no clang found"))
    monkeypatch.setattr(module, "open_hiprtc", lambda: absent(ToolchainError, "no hiprtc found"))
    assert [
        "missing  HIP compiler (target hip): no clang found\n           get it",
        "missing  hiprtc, another HIP compiler: no hiprtc found\n           get it",
        "missing  AMD GPU: no HIP driver found\n           get it",
    ] == [str(found) for found in findings()]
    assert [True, True, False] == [found.compiles for found in findings()]
