"""Compiles CUDA helper texts of `tilelang.isa` for a GPU, which need not be there.

NVRTC does it where it is installed, otherwise nvcc, which takes half a second longer.
"""

import functools
from collections.abc import Iterable

import pytest
from light_compilation import light_flags

from tilelang.errors import ToolchainError
from tilelang.isa.intrinsic import Helper, ordered_helpers
from tilelang.targets.nvidia.runtime import nvcc, nvrtc

ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_120a")
_RELOCATABLE = "--relocatable-device-code=true"  # functions that no kernel calls are compiled, too


@functools.cache
def _has_nvrtc() -> bool:
    try:
        nvrtc.find_nvrtc()
    except ToolchainError:
        return False
    return True


needs_cuda_compiler = pytest.mark.skipif(
    not _has_nvrtc() and nvcc.find_tool("nvcc") is None, reason="needs NVRTC or nvcc"
)


def cuda_source(helpers: Iterable[Helper | None], functions: Iterable[str]) -> str:
    """The text of functions after the helpers they use."""
    ordered = ordered_helpers(helper for helper in helpers if helper is not None)
    return "\n".join([*(helper.text for helper in ordered), *functions])


def compile_cuda(source: str, architecture: str) -> bytes:
    """The cubin of a source; fails the test with the compiler's words."""
    if _has_nvrtc():
        made = nvrtc.open_nvrtc().compile(source, architecture, (_RELOCATABLE, *light_flags()))
    else:
        made = nvcc.compile_text(source, architecture, (_RELOCATABLE,))
    assert made.code is not None, made.log[:4000]
    return made.code


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
