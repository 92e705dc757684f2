"""hiprtc: HIP text to a code object inside this process, where ROCm is.

Takes text, an architecture and flags; gives a `Compilation`, as clang does. Invariant: the library is opened when the
first kernel has to be compiled by it, and its version is known without opening it where a cache key needs it.

Source: HIP documentation, "Programming for HIP runtime compiler (RTC)".
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Sequence

from tilelang.errors import ToolchainError
from tilelang.records import record
from tilelang.targets.amd.runtime.hip_library import find_library
from tilelang.targets.gpu.runtime.compile_log import Compilation
from tilelang.targets.gpu.runtime.runtime_compiler import RuntimeCompiler

_OTHERWISE = "or compile with execution_backend='clang', which needs no ROCm"
INSTALL = f"install ROCm, {_OTHERWISE}"
_REPORTS_UNKNOWN = 6  # the first ROCm whose hiprtc refuses architectures that it does not know; older ones crash
_KNOWN_BEFORE = ("gfx90a",)


@record
class Hiprtc(RuntimeCompiler):
    """An opened hiprtc.

    Attributes:
        library: Its functions.
        version: That of ROCm, as "6.2.41133"; empty if the file's name does not say.
    """

    prefix = "hiprtc"
    library: ctypes.CDLL
    version: str

    def __str__(self) -> str:
        return f"hiprtc {self.version}".rstrip()

    def compile(self, text: str, arch: str, flags: Sequence[str] = ()) -> Compilation:
        """The code object for an architecture such as "gfx942"; the interpreter lock is free meanwhile.

        Raises:
            ToolchainError: The architecture is not known to this version.
        """
        major = int(self.version.partition(".")[0] or _REPORTS_UNKNOWN)
        if major < _REPORTS_UNKNOWN and arch not in _KNOWN_BEFORE:
            raise ToolchainError(f"{self} cannot compile for {arch}", hint=f"install ROCm 6.0 or newer, {_OTHERWISE}")
        options = (f"--offload-arch={arch}", *flags)
        return self._compile_program(text, "kernel.hip", options, "Code", {})


@functools.lru_cache(maxsize=1)
def open_hiprtc() -> Hiprtc:
    """hiprtc, opened.

    Raises:
        ToolchainError: It is not there, or cannot be opened.
    """
    path = find_hiprtc()
    try:
        library = ctypes.CDLL(path)
        library.hiprtcCompileProgram  # noqa: B018  its presence is asked for
    except (OSError, AttributeError) as error:
        raise ToolchainError(f"{path} cannot be used: {error}", hint=INSTALL) from None
    version = re.search(r"\.so\.(\d+(?:\.\d+)*)$", os.path.realpath(path))
    return Hiprtc(library, version[1] if version else "")


def find_hiprtc() -> str:
    """The path of hiprtc; of the driver, of which it was a part before ROCm 6.

    Raises:
        ToolchainError: It is nowhere.
    """
    path = find_library("hiprtc") or find_library("amdhip64")
    if path is None:
        raise ToolchainError(
            "no hiprtc found: this process has not opened it, and it is in no package of this Python, not below "
            "ROCM_PATH, and not among the system's libraries",
            hint=INSTALL,
        )
    return path


def identity() -> str:
    """Names the hiprtc at hand without opening it, for cache keys.

    Raises:
        ToolchainError: It is nowhere.
    """
    real = os.path.realpath(find_hiprtc())
    status = os.stat(real)
    return f"{real} {status.st_size} {status.st_mtime_ns}"
