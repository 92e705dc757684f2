from pathlib import Path

import pytest
from fake_cuda import needs_nvcc

from tilelang.errors import ToolchainError
from tilelang.targets.nvidia.runtime import nvcc

KERNEL = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = 2.0f; }'


@needs_nvcc
def test_a_kernel_becomes_machine_code() -> None:
    made = nvcc.compile_text(KERNEL, "sm_90a")
    assert made.code is not None
    assert made.code.startswith(b"\x7fELF")
    assert "--cubin" in made.command


@needs_nvcc
def test_a_kernel_becomes_ptx() -> None:
    made = nvcc.compile_text(KERNEL, "sm_80", ptx=True)
    assert made.code is not None
    assert b".target sm_80" in made.code


@needs_nvcc
def test_a_rejection_names_the_file_as_nvrtc_does() -> None:
    made = nvcc.compile_text("__global__ void k() { y = 1; }", "sm_80")
    assert made.code is None
    assert 'kernel.cu(1): error: identifier "y" is undefined' in made.log


def test_a_machine_without_nvcc_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "find_tool", lambda name: None)
    with pytest.raises(ToolchainError) as caught:
        nvcc.compile_text(KERNEL, "sm_80")
    assert (
        "no nvcc found: it is not on the PATH and not below CUDA_HOME\n"
        "hint: install the CUDA toolkit, or leave execution_backend out to compile with NVRTC"
    ) == str(caught.value)


def test_an_nvcc_that_cannot_be_started_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "find_tool", lambda name: str(tmp_path))
    with pytest.raises(ToolchainError, match=f"{tmp_path}: cannot be started: .*Permission denied"):
        nvcc.compile_text(KERNEL, "sm_80")


def test_tools_below_cuda_home_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "nvdisasm"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert str(tool) == nvcc.find_tool("nvdisasm")
