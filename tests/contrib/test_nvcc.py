from pathlib import Path

import pytest

from tilelang.contrib import nvcc
from tilelang.targets.nvidia.runtime import nvcc as tools
from tilelang.targets.target import Target

TEXT = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'


@pytest.mark.parametrize(
    ("version", "arch"), [((9, 0), "90a"), ("8.0", "80"), ("8.9", "89"), ((10, 0), "100a"), ("12.0", "120a")]
)
def test_the_architecture_of_a_compute_capability(version: str | tuple[int, int], arch: str) -> None:
    assert arch == nvcc.get_target_arch(version)


def test_a_compute_capability_is_read_from_text() -> None:
    assert (9, 0) == nvcc.parse_compute_version("9.0")
    assert (12, 1) == nvcc.parse_compute_version("12.1")
    with pytest.raises(RuntimeError, match="'hopper' is no compute capability"):
        nvcc.parse_compute_version("hopper")


@pytest.mark.parametrize(
    "target", [{"kind": "cuda", "arch": "sm_90a"}, Target("cuda", "sm_90"), "sm_90a", '{"kind":"cuda","arch":"sm_90"}']
)
def test_a_target_s_architecture_says_its_compute_capability(target: object) -> None:
    assert "9.0" == nvcc.get_target_compute_version(target)


def test_the_device_says_it_where_the_target_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "present_arch", lambda: "sm_120a")
    assert "12.0" == nvcc.get_target_compute_version()
    assert "12.0" == nvcc.get_target_compute_version("cuda")
    monkeypatch.setattr(nvcc, "present_arch", lambda: None)
    for target in (None, "cuda", {"kind": "cuda"}):
        with pytest.raises(ValueError, match="no architecture is given, and there is no device here"):
            nvcc.get_target_compute_version(target)
    with pytest.raises(ValueError, match="the target 'cpu' has no compute capability"):
        nvcc.get_target_compute_version(Target("cpu"))


def test_what_compute_capabilities_have() -> None:
    versions = ["5.2", "6.1", "7.0", "7.5", "8.0", "8.9", "9.0", "10.0"]
    first = {
        function: next(version for version in versions if function(version))
        for function in (nvcc.have_fp16, nvcc.have_int8, nvcc.have_tensorcore, nvcc.have_bf16, nvcc.have_fp8)
    }
    assert ["6.1", "6.1", "7.0", "8.0", "8.9"] == list(first.values())
    assert nvcc.have_tensorcore(target=Target("cuda", "sm_80"))


def test_what_targets_have() -> None:
    rows = {}
    for arch in ("sm_80", "sm_90a", "sm_100a"):
        target = Target("cuda", arch)
        rows[arch] = (nvcc.have_tma(target), nvcc.have_pdl(target), nvcc.is_hopper(target))
    assert {"sm_80": (False,) * 3, "sm_90a": (True,) * 3, "sm_100a": (True, True, False)} == rows
    assert not nvcc.have_tma("cpu")


def test_without_a_toolkit_the_version_is_that_of_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_tool", lambda name: None)
    version = nvcc.get_cuda_version()
    assert version >= (11, 8)
    assert all(isinstance(part, int) for part in version)
    with pytest.raises(RuntimeError, match="no nvcc found"):
        nvcc.find_cuda_path()


def test_the_version_of_a_toolkit_is_what_nvcc_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "nvcc"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    tool.chmod(0o755)
    assert (12, 8, 93) == nvcc.get_cuda_version(str(tmp_path))
    monkeypatch.setattr(tools, "find_tool", lambda name: str(tool))
    assert (12, 8, 93) == nvcc.get_cuda_version()
    assert str(tmp_path) == nvcc.find_cuda_path()
    assert str(tool) == nvcc.get_nvcc_compiler()


def test_text_is_compiled_to_ptx_and_machine_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_tool", lambda name: None)
    path = tmp_path / "twice.ptx"
    ptx = nvcc.compile_cuda(TEXT, arch="sm_80", options="-DNDEBUG", path_target=str(path))
    assert b".target sm_80" in ptx
    assert ptx == path.read_bytes()
    assert b"\x7fELF" == nvcc.compile_cuda(TEXT, "cubin", arch="90a")[:4]


def test_what_cannot_be_compiled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_tool", lambda name: None)
    with pytest.raises(RuntimeError, match="the compiler rejected the text"):
        nvcc.compile_cuda("nonsense", arch="sm_80")
    with pytest.raises(RuntimeError, match="a fatbin needs nvcc"):
        nvcc.compile_cuda(TEXT, "fatbin")
    with pytest.raises(ValueError, match="unknown format 'elf'"):
        nvcc.compile_cuda(TEXT, "elf")
    with pytest.raises(ValueError, match="'hopper' is no architecture"):
        nvcc.compile_cuda(TEXT, arch="hopper")
