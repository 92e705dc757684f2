"""Makes C++ helpers that several targets share callable from kernels."""

from __future__ import annotations

import functools

from tilelang.isa.intrinsic import Helper

_BEGIN, _END = "#pragma clang force_cuda_host_device begin\n", "#pragma clang force_cuda_host_device end\n"


@functools.cache
def for_device(helper: Helper) -> Helper:
    """A helper, with those that it needs, whose functions kernels can call; it includes no header.

    Source: LLVM, "Compiling CUDA with clang"; the pragma is HIP's, too.
    """
    text = f"{_BEGIN}{helper.text}{_END}" if helper.text else ""
    return Helper(helper.name, text, needs=tuple(map(for_device, helper.needs)))
