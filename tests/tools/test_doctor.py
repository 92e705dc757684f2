import pytest

from tilelang.errors import DriverError, ToolchainError
from tilelang.tools import doctor
from tilelang.tools.doctor import Finding, can_compile, findings, size_text


def found(what: str) -> Finding:
    (finding,) = [one for one in findings() if one.what == what]
    return finding


def refuse(kind, message, hint):
    def call():
        raise kind(message, hint=hint)

    return call


def test_what_is_there_is_named():
    assert str(found("Python")).startswith("found    Python: 3.")
    assert str(found("numpy")).startswith("found    numpy: ")
    assert "entries" in found("compile cache").found


def test_what_is_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(doctor, "find_compiler", refuse(ToolchainError, "no C++ compiler found", "install g++"))
    monkeypatch.setattr(doctor, "open_driver", refuse(DriverError, "no CUDA driver found", "run elsewhere"))
    monkeypatch.setattr(doctor, "open_nvrtc", refuse(ToolchainError, "no NVRTC", ""))
    assert (
        "missing  C++ compiler (target cpu): no C++ compiler found\n           install g++"
    ) == str(found("C++ compiler (target cpu)"))
    assert "missing  CUDA compiler (target cuda): no NVRTC" == str(found("CUDA compiler (target cuda)"))
    assert not can_compile(findings())


def test_gpus_are_listed(monkeypatch):
    class Driver:
        def device_count(self):
            return 1

        def name(self, device):
            return "NVIDIA H200"

        def capability(self, device):
            return 9, 0

    monkeypatch.setattr(doctor, "open_driver", Driver)
    assert "NVIDIA H200 (sm_90)" == found("GPU").found


def test_variables_that_are_set_are_told(monkeypatch):
    monkeypatch.setenv("TILELANG_NUM_THREADS", "3")
    assert "'3' in the environment" == found("TILELANG_NUM_THREADS").found


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 20, "3 MiB"), (5 << 30, "5 GiB")]
)
def test_sizes_have_the_unit_that_suits_them(count, text):
    assert text == size_text(count)
