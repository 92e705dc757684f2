"""Compiles CUDA helper texts of `tilelang.isa` for a GPU, which need not be there.

NVRTC does it where its bindings are installed, otherwise nvcc.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from tilelang.isa.intrinsic import Helper, ordered_helpers

try:
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()
except (ImportError, RuntimeError):
    nvrtc = None

NVCC = shutil.which("nvcc")
ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_120a")

needs_cuda_compiler = pytest.mark.skipif(nvrtc is None and NVCC is None, reason="needs NVRTC or nvcc")


def cuda_source(helpers: Iterable[Helper | None], functions: Iterable[str]) -> str:
    """The text of functions after the helpers they use."""
    ordered = ordered_helpers(helper for helper in helpers if helper is not None)
    return "\n".join([*(helper.text for helper in ordered), *functions])


def compile_cuda(source: str, architecture: str) -> bytes:
    """The cubin of a source; fails the test with the compiler's words."""
    if nvrtc is not None:
        return _by_nvrtc(source, architecture)
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
        text.write_text(source)
        command = [str(NVCC), "-cubin", "-rdc=true", f"-arch={architecture}", str(text), "-o", str(cubin)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[:4000]
        return cubin.read_bytes()


def _by_nvrtc(source: str, architecture: str) -> bytes:
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    options = [f"--gpu-architecture={architecture}".encode(), b"--relocatable-device-code=true"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        pytest.fail(log.decode()[:4000])
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin = b" " * size
    nvrtc.nvrtcGetCUBIN(program, cubin)
    return cubin


# What host compilers lack of CUDA: with it, helpers of plain C++ run on the CPU.
HOST = Helper(
    "host",
    """\
#define __device__
#define __forceinline__ inline
#define __align__(n) alignas(n)
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
""",
    headers=("<cmath>", "<cstdint>"),
)
