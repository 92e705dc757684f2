import ctypes
from pathlib import Path
from typing import Any

import pytest
from hip_kernels import REVERSE, needs_hiprtc

from tilelang.errors import ToolchainError
from tilelang.targets.amd.runtime import hiprtc
from tilelang.targets.amd.runtime.code_object import read_code_object
from tilelang.targets.amd.runtime.hiprtc import Hiprtc, identity, open_hiprtc


class FakeHiprtc:
    """The functions of libhiprtc: text that holds "error" is rejected, other text becomes itself."""

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.given: list[Any] = []
        self.destroyed = 0
        self.hiprtcGetErrorString = _Text()

    def _answer(self, name: str) -> int:
        return self.failing.get(name, 0)

    def hiprtcCreateProgram(self, program: Any, text: bytes, name: bytes, count: int, headers: None, names: None) -> int:
        program._obj.value = 7
        self.text, self.given = text, [name, count]
        return self._answer("hiprtcCreateProgram")

    def hiprtcCompileProgram(self, program: Any, count: int, words: Any) -> int:
        self.given += [word.decode() for word in words]
        return 6 if b"error" in self.text else 0

    def hiprtcGetProgramLogSize(self, program: Any, size: Any) -> int:
        size._obj.value = 5
        return self._answer("hiprtcGetProgramLogSize")

    def hiprtcGetProgramLog(self, program: Any, buffer: Any) -> int:
        ctypes.memmove(buffer, b"said\0", 5)
        return 0

    def hiprtcGetCodeSize(self, program: Any, size: Any) -> int:
        size._obj.value = len(self.text)
        return 0

    def hiprtcGetCode(self, program: Any, buffer: Any) -> int:
        ctypes.memmove(buffer, self.text, len(self.text))
        return 0

    def hiprtcDestroyProgram(self, program: Any) -> int:
        self.destroyed += 1
        return 0


class _Text:
    restype: Any = None

    def __call__(self, status: int) -> bytes:
        return b"HIPRTC_ERROR_%d" % status


def test_flags_follow_the_architecture() -> None:
    library = FakeHiprtc()
    made = Hiprtc(library, "6.2").compile("text", "gfx942", ("-O3",))  # type: ignore[arg-type]
    assert [b"kernel.hip", 0, "--offload-arch=gfx942", "-O3"] == library.given
    assert (b"text", "said", "hiprtc --offload-arch=gfx942 -O3 kernel.hip") == (made.code, made.log, made.command)
    assert 1 == library.destroyed


def test_a_rejected_text_has_a_log_and_no_code() -> None:
    library = FakeHiprtc()
    made = Hiprtc(library, "6.2").compile("error", "gfx942")  # type: ignore[arg-type]
    assert (None, "said", 1) == (made.code, made.log, library.destroyed)


def test_a_function_that_fails_is_named() -> None:
    library = FakeHiprtc()
    library.failing["hiprtcGetProgramLogSize"] = 3
    with pytest.raises(ToolchainError, match=r"hiprtc 6\.2: hiprtcGetProgramLogSize failed: HIPRTC_ERROR_3"):
        Hiprtc(library, "6.2").compile("text", "gfx942")  # type: ignore[arg-type]
    assert 1 == library.destroyed


def test_an_architecture_that_would_crash_an_old_one_is_refused() -> None:
    library = FakeHiprtc()
    with pytest.raises(ToolchainError) as caught:
        Hiprtc(library, "5.2.21153").compile("text", "gfx942")  # type: ignore[arg-type]
    assert "hiprtc 5.2.21153 cannot compile for gfx942" == caught.value.message
    assert (
        "install ROCm 6.0 or newer, or compile with execution_backend='clang', which needs no ROCm"
    ) == caught.value.hint
    assert [] == library.given


@needs_hiprtc
def test_the_real_one_compiles_without_a_gpu() -> None:
    made = open_hiprtc().compile(REVERSE, "gfx90a", ("-O3",))
    assert made.code is not None, made.log
    assert 1024 == read_code_object(made.code).kernels["reverse"].shared_bytes


@needs_hiprtc
def test_the_real_one_names_the_line_of_what_it_rejects() -> None:
    made = open_hiprtc().compile(REVERSE.replace("255 - t", "m"), "gfx90a")
    assert made.code is None
    assert ":16:25: error: use of undeclared identifier 'm'" in made.log


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "libhiprtc.so.6.2.41133"
    path.write_bytes(b"no library")
    monkeypatch.setattr(hiprtc, "find_library", lambda name: str(path) if name == "hiprtc" else None)
    open_hiprtc.cache_clear()
    return path


def test_the_version_is_that_of_the_file(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda path: FakeHiprtc())
    assert "hiprtc 6.2.41133" == str(open_hiprtc())
    open_hiprtc.cache_clear()


def test_the_identity_opens_nothing(library: Path) -> None:
    first = identity()
    assert first.startswith(f"{library} 10 ")
    library.write_bytes(b"another one")
    assert first != identity()


def test_what_cannot_be_opened_is_named(library: Path) -> None:
    with pytest.raises(ToolchainError, match=r"libhiprtc\.so\.6\.2\.41133 cannot be used: "):
        open_hiprtc()


def test_the_driver_may_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hiprtc, "find_library", lambda name: "/lib/driver" if name == "amdhip64" else None)
    assert "/lib/driver" == hiprtc.find_hiprtc()


def test_without_it_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hiprtc, "find_library", lambda name: None)
    with pytest.raises(ToolchainError) as caught:
        identity()
    assert (
        "no hiprtc found: this process has not opened it, and it is in no package of this Python, not below ROCM_PATH, "
        "and not among the system's libraries"
    ) == caught.value.message
    assert "install ROCm, or compile with execution_backend='clang', which needs no ROCm" == caught.value.hint
