"""NVRTC: CUDA C++ to machine code inside this process.

Takes text, an architecture and flags; gives a `Compilation`. Invariant: the library is looked for when the first kernel
has to be compiled, never before, and its version is known without opening it where a cache key needs it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tilelang.errors import ToolchainError
from tilelang.records import record
from tilelang.runtime.compile_flags import with_standard
from tilelang.targets.gpu.runtime.compile_log import Compilation
from tilelang.targets.gpu.runtime.runtime_compiler import RuntimeCompiler

INSTALL = (
    "pip install nvidia-cuda-nvrtc (NVRTC of CUDA 13), or `pip install nvidia-cuda-nvrtc-cu12` for drivers of CUDA 12, "
    "or set CUDA_HOME to a CUDA toolkit"
)

# where wheels of NVIDIA put the library below a folder of Python's path
_WHEELS = ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
_SYSTEM = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_ROOTS = ("/usr/local/cuda",)
_NO_CACHE_SINCE = (12, 9)  # NVRTC has a cache of its own, which is switched off: ours suffices
_MINIMAL_SINCE = (12, 4)  # Source: NVRTC User Guide, "Supported Compile Options", --minimal


# NVRTC has no headers of the C++ library; these are the ones that the device code of users needs most. The types are
# those of the generated text.
_INTEGERS = {"8": "char", "16": "short", "32": "int", "64": "long long"}
_TYPES = {
    **{f"int{bits}_t": f"signed {c_type}" for bits, c_type in _INTEGERS.items()},
    **{f"uint{bits}_t": f"unsigned {c_type}" for bits, c_type in _INTEGERS.items()},
    "intptr_t": "long long",
    "uintptr_t": "unsigned long long",
}
_STDINT = "#pragma once\n" + "".join(f"typedef {c_type} {name};\n" for name, c_type in _TYPES.items())
# Source: glibc, sys/types.h; of `ulong` what 64-bit hosts make of it
_SYS_TYPES = (
    "#pragma once\ntypedef unsigned int uint;\ntypedef unsigned short ushort;\ntypedef unsigned long ulong;\n"
)
_CSTDINT = "".join(f"using ::{name}; " for name in _TYPES)
_STRING = "using ::memcpy; using ::memset; using ::size_t; "  # functions that NVRTC has without a header
_STDDEF = (
    "#pragma once\n#define offsetof(type, member) __builtin_offsetof(type, member)\n"
    "typedef decltype(nullptr) nullptr_t;\n"
)
_OF_CCCL = (b"array", b"cmath", b"limits", b"tuple", b"type_traits", b"utility")  # CUDA's headers have them elsewhere
_HEADERS = {
    b"stdint.h": _STDINT.encode(),
    b"sys/types.h": _SYS_TYPES.encode(),
    b"cstdint": f"#pragma once\n#include <stdint.h>\nnamespace std {{ {_CSTDINT}}}\n".encode(),
    b"string.h": b"#pragma once\n",
    b"cstring": f"#pragma once\nnamespace std {{ {_STRING}}}\n".encode(),
    b"stddef.h": _STDDEF.encode(),
    b"cstddef": b"#pragma once\n#include <stddef.h>\nnamespace std { using ::size_t; using ::nullptr_t; }\n",
    **{
        name: b"#pragma once\n#include <cuda/std/%b>\nnamespace std { using namespace ::cuda::std; }\n" % name
        for name in _OF_CCCL
    },
}
# functions of the compiler that nvcc has in device code, by what NVRTC calls them
_BUILTINS = {
    "memcpy": "memcpy",
    "memset": "memset",
    "clz": "__clz",
    "clzll": "__clzll",
    "ffs": "__ffs",
    "ffsll": "__ffsll",
    "popcount": "__popc",
    "popcountll": "__popcll",
}
BUILTIN_FLAGS = tuple(f"-D__builtin_{name}={known}" for name, known in _BUILTINS.items())


@record
class Nvrtc(RuntimeCompiler):
    """An opened NVRTC.

    Attributes:
        library: Its functions.
        version: As (major, minor).
        numbers: The architectures that it supports: 90 for sm_90.
    """

    prefix = "nvrtc"
    library: ctypes.CDLL
    version: tuple[int, int]
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    def compile(
        self, text: str, arch: str, flags: Sequence[str] = (), *, ptx: bool = False, minimal: bool = False
    ) -> Compilation:
        """Machine code for an architecture such as "sm_90a", or its PTX; the interpreter lock is free meanwhile.

        Args:
            text: The program.
            arch: What it is compiled for.
            flags: More flags.
            ptx: Give PTX.
            minimal: Without NVRTC's own declarations of textures and of the CUDA runtime, which take time to read.

        Raises:
            ToolchainError: The architecture is not known to this version.
        """
        number = int(re.sub(r"\D", "", arch))
        if number not in self.numbers:
            supported = ", ".join(f"sm_{n}" for n in self.numbers)
            raise ToolchainError(f"{self} cannot compile for {arch}; it supports {supported}", hint=f"newer: {INSTALL}")
        chosen = f"--gpu-architecture={arch.replace('sm_', 'compute_') if ptx else arch}"
        quiet = ("--no-cache",) if self.version >= _NO_CACHE_SINCE else ()
        bare = ("--minimal",) if minimal and self.version >= _MINIMAL_SINCE else ()
        options = (chosen, *quiet, *bare, *with_standard(flags))
        return self._compile_program(text, "kernel.cu", options, "PTX" if ptx else "CUBIN", _HEADERS)


@functools.lru_cache(maxsize=1)
def open_nvrtc() -> Nvrtc:
    """NVRTC, opened.

    Raises:
        ToolchainError: It is not there, or too old to be used.
    """
    path = find_nvrtc()
    try:
        for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so*")):
            ctypes.CDLL(str(builtins))  # NVRTC opens it by its bare name, which then is known
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ToolchainError(f"NVRTC: cannot open {path}: {error}", hint=INSTALL) from None
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        count = ctypes.c_int()
        library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        library.nvrtcGetSupportedArchs(numbers)
        _ = library.nvrtcGetCUBIN
    except AttributeError:
        version = f" {major.value}.{minor.value}" if major.value else ""
        raise ToolchainError(f"NVRTC{version} ({path}) is too old: 11.8 or newer is needed", hint=INSTALL) from None
    return Nvrtc(library, (major.value, minor.value), tuple(numbers))


@functools.lru_cache(maxsize=1)
def find_nvrtc() -> str:
    """The path or name under which NVRTC can be opened: a wheel's, or what cuda-pathfinder or the system finds.

    Raises:
        ToolchainError: It is nowhere.
    """
    for folder in sys.path:  # before cuda-pathfinder, whose import takes longer than loading a cached kernel
        for relative in _WHEELS:
            path = os.path.join(folder, relative)
            if os.path.isfile(path):
                return path
    found = _by_pathfinder()
    if found:
        return found
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), *_ROOTS):
        for name in _SYSTEM:
            path = os.path.join(root or "", "lib64", name)
            if root and os.path.isfile(path):
                return path
    for name in _SYSTEM:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return name
    raise ToolchainError(
        "no NVRTC found: it is in no package of this Python, not below CUDA_HOME, and not among the system's libraries",
        hint=f"{INSTALL}, or compile with execution_backend='nvcc'",
    )


def _by_pathfinder() -> str | None:
    """Return the path that cuda-pathfinder finds, if installed; it covers conda and all layouts of toolkits."""
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return None
    try:
        return str(pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path)
    except RuntimeError:  # the root of its errors for what is nowhere
        return None


def identity() -> str:
    """Names the NVRTC at hand without opening it, for cache keys.

    Raises:
        ToolchainError: It is nowhere.
    """
    path = find_nvrtc()
    if not os.path.isabs(path):
        return f"{path} {open_nvrtc()}"
    real = os.path.realpath(path)
    status = os.stat(real)
    return f"{real} {status.st_size} {status.st_mtime_ns}"
