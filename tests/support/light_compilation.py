"""Flags with which NVRTC compiles faster, for tests that do not look at the machine code."""

import functools

from tilelang.errors import ToolchainError
from tilelang.targets.nvidia.runtime.nvrtc import open_nvrtc

_LIGHTER = ("--Ofast-compile=mid",)


@functools.cache
def light_flags() -> tuple[str, ...]:
    """What lets NVRTC optimize machine code less, which takes it two thirds of the time, if it can."""
    try:
        return _LIGHTER if open_nvrtc().compile("", "sm_80", _LIGHTER).code is not None else ()
    except ToolchainError:
        return ()
