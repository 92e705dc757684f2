"""Turns generated CUDA C++ into machine code for one architecture, through the compile cache.

Takes a `Source`, gives `CudaCode`. Invariant: the same text, flags, compiler and architecture are compiled once per
cache folder; nothing here needs a GPU or a driver.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tilelang.codegen.source import Source
from tilelang.environment import temporary_folder
from tilelang.errors import CompilerBug, TileLangError, ToolchainError
from tilelang.options import CompileOptions, PassConfigKey
from tilelang.records import record
from tilelang.runtime import cache
from tilelang.runtime.compile_flags import device_flags
from tilelang.targets.gpu.isa.save_registers import DEFINE, SAVE_REGISTERS
from tilelang.targets.gpu.runtime.compile_log import Compilation
from tilelang.targets.gpu.runtime.device_code import BuiltCode, DeviceCode, built_once, with_launch_memory
from tilelang.targets.gpu.runtime.fewer_losses import with_fewer_losses
from tilelang.targets.gpu.runtime.resources import Resources
from tilelang.targets.nvidia.runtime import nvrtc
from tilelang.targets.nvidia.runtime.ptxas_log import resources_of, warnings_of


@record
class CudaCode(DeviceCode):
    """Machine code of a program's kernels: a cubin, by "nvrtc" or "nvcc"."""

    def ptx(self) -> str:
        """The program in PTX, compiled again.

        Raises:
            ToolchainError: The compiler is not installed any more.
        """
        source = self.source
        if _saving(source):
            source = _built(source, self.arch, self.compiler, self.options).source
        compilation = _compile(source, self.arch, self.compiler, self.options, ptx=True)
        if compilation.code is None:
            raise _rejection(self.source, compilation, self.options)
        return compilation.code.rstrip(b"\0").decode()

    def assembly(self) -> str:
        """The SASS of the machine code, by cuobjdump or nvdisasm.

        Raises:
            ToolchainError: Neither of them is there, or it fails.
        """
        for name, flags in (("nvdisasm", ("-c",)), ("cuobjdump", ("-sass",))):
            tool = _nvcc().find_tool(name)
            if tool is not None:
                return _disassembled(tool, flags, self.binary)
        raise ToolchainError(
            "no disassembler found: neither nvdisasm nor cuobjdump is on the PATH or below CUDA_HOME",
            hint="pip install nvidia-cuda-nvdisasm and put its bin folder on the PATH, or install the CUDA toolkit",
        )


def build(source: Source, arch: str, compiler: str, options: CompileOptions = CompileOptions()) -> CudaCode:
    """The machine code of a source, from the cache where possible.

    Args:
        source: The text and what its kernels are called.
        arch: Such as "sm_90a".
        compiler: "nvrtc" or "nvcc".
        options: The user's flags, and whether fast math is wanted.

    Raises:
        ToolchainError: No usable compiler, or it rejected what the user wrote: flags, inline PTX, code of theirs.
        CompilerBug: The compiler rejected our text.
    """
    headers = _header_flags(source, compiler, options)
    key = (source.key_text, arch, identity(compiler, options), *source.flags, *headers)
    built = built_once(key, ".cubin", lambda: _built(source, arch, compiler, options).code)
    resources = with_launch_memory(source, built.resources)
    return CudaCode(source, arch, compiler, options, built.binary, resources, built.warnings)


def identity(compiler: str, options: CompileOptions) -> str:
    """Names all that decides the machine code besides text and architecture.

    Raises:
        ToolchainError: The compiler is not there.
    """
    name = _nvcc().identity() if compiler == "nvcc" else nvrtc.identity()
    return cache.key_of(compiler, name, *_flags(compiler, options))


def _nvcc() -> Any:
    """The module of nvcc, imported on use: a kernel in the cache needs nothing that starts processes."""
    return import_module("tilelang.targets.nvidia.runtime.nvcc")


def _rejection(*args: Any) -> TileLangError:
    """The error for a rejected text, worded by a module that is loaded when there is one."""
    error: TileLangError = import_module("tilelang.targets.nvidia.runtime.compile_log").rejection(*args)
    return error


# -- compiling -----------------------------------------------------------------------------------------------
@record
class _Built:
    """Machine code, and its source with the flags that it was compiled with."""

    code: BuiltCode
    source: Source

    @property
    def resources(self) -> dict[str, Resources]:
        return self.code.resources


def _built(source: Source, arch: str, compiler: str, options: CompileOptions) -> _Built:
    def built_with(saving: tuple[str, ...]) -> _Built:
        flagged = dataclasses.replace(source, flags=(*source.flags, *saving))
        compilation = _compile(flagged, arch, compiler, options)
        if compilation.code is None:
            raise _rejection(flagged, compilation, options, lambda: _with_lines(flagged, arch, compiler, options))
        code = BuiltCode(compilation.code, resources_of(compilation.log), warnings_of(compilation.log))
        return _Built(code, flagged)

    return with_fewer_losses(built_with, lambda: _saving(source))


def _saving(source: Source) -> tuple[str, ...]:
    """The flags with which a text saves registers, if it can."""
    return (DEFINE,) if SAVE_REGISTERS in source.text else ()


def _compile(
    source: Source, arch: str, compiler: str, options: CompileOptions, *, ptx: bool = False, lines: bool = False
) -> Compilation:
    headers = _header_flags(source, compiler, options)
    flags = (*_flags(compiler, options), *source.flags, *headers)
    flags = (*flags, "-lineinfo") if lines else flags
    if compiler == "nvcc":
        compilation: Compilation = _nvcc().compile_text(source.text, arch, flags, ptx=ptx)
    elif compiler == "nvrtc":
        compilation = nvrtc.open_nvrtc().compile(source.text, arch, flags, ptx=ptx, minimal=not headers)
    else:
        raise CompilerBug(f"no compiler is called {compiler!r}")
    configs = dict(options.pass_configs)
    if not ptx and not lines and (options.verbose or configs.get(PassConfigKey.TL_ENABLE_PTXAS_VERBOSE_OUTPUT.value)):
        print(compilation.command, compilation.log, sep="\n", file=sys.stderr)  # noqa: T201  the user asked for it
    return compilation


def _with_lines(source: Source, arch: str, compiler: str, options: CompileOptions) -> tuple[str, str]:
    """The PTX with the lines it came from, and the log of assembling just that."""
    compilation = _compile(source, arch, compiler, options, ptx=True, lines=True)
    log = _compile(source, arch, compiler, options, lines=True).log
    return (compilation.code or b"").rstrip(b"\0").decode("utf-8", "replace"), log


def _header_flags(source: Source, compiler: str, options: CompileOptions) -> tuple[str, ...]:
    """Return flags for the user's own text: folders of headers that it includes, and macros for functions of nvcc.

    The text may be a file that the user's flags include.
    """
    given = bool(options.compile_flags)
    if compiler == "nvcc" or not (source.has_user_code or given):
        return ()
    headers = import_module("tilelang.targets.nvidia.runtime.cuda_headers")
    flags: tuple[str, ...] = headers.include_flags(source, given=given)
    return (*flags, *nvrtc.BUILTIN_FLAGS)


def _flags(compiler: str, options: CompileOptions) -> tuple[str, ...]:
    """Our flags, then the user's, so that theirs win."""
    flags = ["--ptxas-options=-v"]
    if options.fast_math:
        flags.append("--use_fast_math")
    if options.register_usage_level is not None:
        flags.append(f"--ptxas-options=--register-usage-level={options.register_usage_level}")
    given = options.compile_flags
    return (*flags, *(given if compiler == "nvcc" else device_flags(given)))


def _disassembled(tool: str, flags: tuple[str, ...], cubin: bytes) -> str:
    import subprocess  # noqa: PLC0415  as above
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary_folder()) as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        result = subprocess.run(
            [tool, *flags, str(path)], capture_output=True, text=True, errors="replace", check=False
        )
    if result.returncode:
        raise ToolchainError(f"{os.path.basename(tool)}: failed with status {result.returncode}\n{result.stderr}")
    return result.stdout
