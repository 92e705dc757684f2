import pytest
from fake_cuda import FakeCuda

from tilelang.errors import DriverError, ToolchainError
from tilelang.targets.nvidia.runtime import findings as module
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver
from tilelang.targets.nvidia.runtime.findings import findings


def test_what_is_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_driver", lambda: CudaDriver(FakeCuda()))
    monkeypatch.setattr(module, "open_nvrtc", lambda: "NVRTC 13.5")
    monkeypatch.setattr(module, "find_tool", lambda name: f"/bin/{name}")
    assert [
        "found    CUDA compiler (target cuda): NVRTC 13.5",
        "found    nvcc: /bin/nvcc",
        "found    CUDA disassembler: /bin/nvdisasm",
        "found    NVIDIA GPU: Imaginary GPU (sm_90)",
    ] == [str(found) for found in findings()]


def test_what_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(kind: type[Exception], message: str) -> object:
        raise kind(message, hint="get it")  # type: ignore[call-arg]

    monkeypatch.setattr(module, "open_driver", lambda: absent(DriverError, "no CUDA driver found"))
    monkeypatch.setattr(module, "open_nvrtc", lambda: absent(ToolchainError, "no NVRTC found"))
    monkeypatch.setattr(module, "find_tool", lambda name: None)
    assert [
        "missing  CUDA compiler (target cuda): no NVRTC found\n           get it",
        'missing  nvcc: only for execution_backend="nvcc"; part of the CUDA toolkit',
        "missing  CUDA disassembler: only for get_sass(); part of the CUDA toolkit",
        "missing  NVIDIA GPU: no CUDA driver found\n           get it",
    ] == [str(found) for found in findings()]
    assert [True, False, False, False] == [found.compiles for found in findings()]
