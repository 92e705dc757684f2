"""The CUDA toolchain at hand: its version, what compute capabilities have, and its compiler.

Takes targets and compute capabilities such as "9.0"; gives plain values. Invariant: without a CUDA toolkit the answers
are those of NVRTC, which compiles kernels where there is no nvcc.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilelang.api import public
from tilelang.errors import OptionError, TargetError, ToolchainError
from tilelang.targets.nvidia.machines import DEFAULT_ARCH, Feature, number_of
from tilelang.targets.nvidia.present_device import present_arch
from tilelang.targets.nvidia.runtime import nvcc, nvrtc
from tilelang.targets.target import Target, TargetLike, parse_target

__all__ = [
    "compile_cuda",
    "find_cuda_path",
    "get_cuda_version",
    "get_nvcc_compiler",
    "get_target_arch",
    "get_target_compute_version",
    "have_bf16",
    "have_fp8",
    "have_fp16",
    "have_int8",
    "have_pdl",
    "have_tensorcore",
    "have_tma",
    "is_hopper",
    "parse_compute_version",
]

ComputeVersion = str | tuple[int, int]


# -- the toolkit ---------------------------------------------------------------------------------------------
@public
def get_nvcc_compiler() -> str:
    """The path of nvcc.

    Raises:
        RuntimeError: There is none.
    """
    path = nvcc.find_tool("nvcc")
    if path is None:
        raise ToolchainError("no nvcc found: it is not on the PATH and not below CUDA_HOME", hint=nvrtc.INSTALL)
    return path


@public
def find_cuda_path() -> str:
    """The folder of the CUDA toolkit.

    Raises:
        RuntimeError: There is none.
    """
    return str(Path(get_nvcc_compiler()).resolve().parent.parent)


@public
def get_cuda_version(cuda_path: str | None = None) -> tuple[int, ...]:
    """The version of the CUDA toolkit in a folder; without one, of the toolkit at hand, else of NVRTC.

    Raises:
        RuntimeError: There is neither, or the folder has no toolkit.
    """
    compiler = nvcc.find_tool("nvcc") if cuda_path is None else str(Path(cuda_path, "bin", "nvcc"))
    if compiler is None:
        return nvrtc.open_nvrtc().version
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise ToolchainError(f"{compiler}: cannot be started: {error}") from None
    found = re.search(r"V(\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        raise ToolchainError(f"{compiler} --version names no version")
    return tuple(int(part) for part in found.groups())


@public
def compile_cuda(
    code: str,
    target_format: str = "ptx",
    arch: str | Sequence[str] | None = None,
    options: str | Sequence[str] | None = None,
    path_target: str | None = None,
    verbose: bool = False,
) -> bytes:
    """Compiles CUDA C++ with nvcc, or with NVRTC where there is no nvcc.

    Args:
        code: The text.
        target_format: "ptx", "cubin" or "fatbin"; the last needs nvcc.
        arch: Such as "sm_90a"; that of the device at hand without it, else "sm_90a".
        options: Further flags, a text or a list.
        path_target: A file to write the result to as well.
        verbose: Print the command line and what the compiler says.

    Raises:
        ValueError: An unknown format, or an architecture that is none.
        RuntimeError: There is no compiler, or it rejects the text.
    """
    if target_format not in ("ptx", "cubin", "fatbin"):
        raise OptionError(f"compile_cuda: unknown format {target_format!r}", hint="'ptx', 'cubin' or 'fatbin'")
    chosen = _arch_text(arch)
    flags = shlex.split(options) if isinstance(options, str) else list(options or ())
    ptx = target_format == "ptx"
    if nvcc.find_tool("nvcc") is not None:
        compilation = nvcc.compile_text(code, chosen, flags, ptx=ptx, fatbin=target_format == "fatbin")
    elif target_format == "fatbin":
        raise ToolchainError("compile_cuda: a fatbin needs nvcc, which is missing", hint="write target_format='cubin'")
    else:
        compilation = nvrtc.open_nvrtc().compile(code, chosen, flags, ptx=ptx)
    if verbose:
        print(compilation.command, compilation.log, sep="\n", file=sys.stderr)  # noqa: T201  the user asked for it
    if compilation.code is None:
        raise ToolchainError(f"compile_cuda: the compiler rejected the text: {compilation.command}\n{compilation.log}")
    result = compilation.code.rstrip(b"\0") if ptx else compilation.code
    if path_target is not None:
        Path(path_target).write_bytes(result)
    return result


def _arch_text(arch: str | Sequence[str] | None) -> str:
    """An architecture in any spelling, "sm_90a" or "90a" or "-arch=sm_90a", as compilers spell it."""
    if arch is None:
        return present_arch() or DEFAULT_ARCH
    text = arch if isinstance(arch, str) else " ".join(arch)
    found = re.findall(r"(?:sm_|^)(\d+[af]?)", text)
    if not found:
        raise OptionError(f"compile_cuda: {arch!r} is no architecture", hint="write arch='sm_90a'")
    return f"sm_{found[-1]}"


# -- compute capabilities ------------------------------------------------------------------------------------
@public
def get_target_compute_version(target: TargetLike = None) -> str:
    """The compute capability of a target, such as "9.0"; without a target or its architecture, of the device at hand.

    Raises:
        ValueError: There is neither.
    """
    arch = target.get("arch") if isinstance(target, Mapping) else None
    named = arch is not None or (isinstance(target, str) and target.startswith(("sm_", "{")))
    if isinstance(target, Target) or named:
        found = parse_target(target)
        if found.kind == "cpu":
            raise TargetError("the target 'cpu' has no compute capability", hint="write target='cuda'")
        number = number_of(found.arch)
        return f"{number // 10}.{number % 10}"
    present = present_arch()
    if present is None:
        raise OptionError(
            "no architecture is given, and there is no device here",
            hint="write target={'kind': 'cuda', 'arch': 'sm_90a'}",
        )
    return get_target_compute_version(Target("cuda", present))


@public
def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """(9, 0) of "9.0".

    Raises:
        RuntimeError: The text is no compute capability.
    """
    found = re.fullmatch(r"(\d+)\.(\d+)", str(compute_version))
    if found is None:
        raise ToolchainError(f"{compute_version!r} is no compute capability", hint="write '9.0'")
    return int(found[1]), int(found[2])


@public
def get_target_arch(compute_version: ComputeVersion) -> str:
    """The number of the architecture with all instructions of a compute capability: "90a" of (9, 0), "80" of (8, 0).

    Source: CUDA C++ Programming Guide, "Feature Set Compiler Targets": from 9.0 on.
    """
    major, minor = _pair(compute_version)
    return f"{major}{minor}{'a' if major >= 9 else ''}"


@public
def have_fp16(compute_version: ComputeVersion) -> bool:
    """Whether there is arithmetic on float16. Source: PTX ISA, "fma" on f16: sm_53."""
    return _pair(compute_version) >= (5, 3)


@public
def have_int8(compute_version: ComputeVersion) -> bool:
    """Whether there are dot products of int8. Source: PTX ISA, "dp4a": sm_61."""
    return _pair(compute_version) >= (6, 1)


@public
def have_tensorcore(compute_version: ComputeVersion | None = None, target: TargetLike = None) -> bool:
    """Whether there are matrix instructions. Source: PTX ISA, "wmma": sm_70."""
    return _pair(get_target_compute_version(target) if compute_version is None else compute_version) >= (7, 0)


@public
def have_bf16(compute_version: ComputeVersion) -> bool:
    """Whether there is arithmetic on bfloat16. Source: PTX ISA, "fma" on bf16: sm_80."""
    return _pair(compute_version) >= (8, 0)


@public
def have_fp8(compute_version: ComputeVersion) -> bool:
    """Whether there are conversions of float8. Source: PTX ISA, "cvt" of e4m3x2: sm_89."""
    return _pair(compute_version) >= (8, 9)


@public
def have_tma(target: TargetLike) -> bool:
    """Whether a target has the instructions of TMA."""
    found = parse_target(target)
    return found.kind == "cuda" and found.has(Feature.TMA)


@public
def have_pdl(target: TargetLike) -> bool:
    """Whether a target has dependent launches. Source: PTX ISA, "griddepcontrol": sm_90."""
    found = parse_target(target)
    return found.kind == "cuda" and number_of(found.arch) >= 90


@public
def is_hopper(target: TargetLike) -> bool:
    """Whether a target is of compute capability 9.0."""
    found = parse_target(target)
    return found.kind == "cuda" and number_of(found.arch) == 90


def _pair(compute_version: ComputeVersion) -> tuple[int, int]:
    return parse_compute_version(compute_version) if isinstance(compute_version, str) else compute_version
