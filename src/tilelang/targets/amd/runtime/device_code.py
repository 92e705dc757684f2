"""Turns generated HIP into a code object for one architecture, through the compile cache.

Takes a `Source`, gives `HipCode`. Invariant: the same text, flags, compiler and architecture are compiled once per
cache folder; nothing here needs a GPU, a driver or ROCm.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module

from tilelang.codegen.source import Source
from tilelang.environment import temporary_folder
from tilelang.errors import TileLangError, ToolchainError
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.runtime import cache
from tilelang.runtime.compile_flags import STANDARD, host_flags
from tilelang.targets.amd.runtime import hiprtc
from tilelang.targets.amd.runtime.toolchain import Clang, find_clang, find_disassembler
from tilelang.targets.gpu.runtime.compile_log import Compilation
from tilelang.targets.gpu.runtime.device_code import BuiltCode, DeviceCode, built_once, with_launch_memory
from tilelang.targets.gpu.runtime.fewer_losses import with_fewer_losses
from tilelang.targets.gpu.runtime.resources import Resources

# data integers wrap, and vector accesses name bytes under another dtype
_FLAGS = (STANDARD, "-O3", "-fwrapv", "-fno-strict-aliasing", "-fno-math-errno")
# approximate functions and divisions, and subnormals are flushed to zero; NaN and infinity are kept
_FAST_MATH = (
    "-fapprox-func", "-freciprocal-math", "-fno-signed-zeros", "-fgpu-flush-denormals-to-zero",
    "-fno-hip-fp32-correctly-rounded-divide-sqrt",
)  # fmt: skip
_REGISTER_BYTES = 4
_WARNING = re.compile(r"warning: (.*)")


@record
class HipCode(DeviceCode):
    """Machine code of a program's kernels: a code object, by "clang" or "hiprtc"."""

    def assembly(self) -> str:
        """The assembly: clang compiles the source again for it; the code of hiprtc is disassembled by llvm-objdump.

        Raises:
            ToolchainError: It is hiprtc's, and there is no disassembler, or it fails.
        """
        if self.compiler == "hiprtc":
            return _disassembled(self.binary)
        clang = find_clang()
        flags = _compiled(self.source, self.arch, clang, self.options).flags
        made = clang.compile(self.source.text, self.arch, flags, assembly=True)
        if made.code is None:
            raise _rejection(self.source, made, self.options)
        return made.code.decode()


def build(source: Source, arch: str, compiler: str, options: CompileOptions = CompileOptions()) -> HipCode:
    """The machine code of a source, from the cache where possible.

    Args:
        source: The text and what its kernels are called.
        arch: Such as "gfx942".
        compiler: "clang" or "hiprtc".
        options: The user's flags, and whether fast math is wanted.

    Raises:
        ToolchainError: No usable compiler, or it rejected what the user wrote: flags, code of theirs.
        CompilerBug: The compiler rejected our text.
    """
    key = (source.key_text, arch, identity(compiler, options), *source.flags)
    made = built_once(key, ".hsaco", lambda: _built(source, arch, compiler, options))
    resources = with_launch_memory(source, made.resources)
    return HipCode(source, arch, compiler, options, made.binary, resources, made.warnings)


def identity(compiler: str, options: CompileOptions) -> str:
    """A key of all that determines the machine code besides text and architecture.

    Raises:
        ToolchainError: The compiler is not there.
    """
    name = hiprtc.identity() if compiler == "hiprtc" else find_clang().identity
    return cache.key_of(compiler, name, *_all_flags(None, options))


def _all_flags(source: Source | None, options: CompileOptions) -> tuple[str, ...]:
    """Our flags, those of the text, then the user's, which override them."""
    fast = _FAST_MATH if options.fast_math else ()
    return (*_FLAGS, *fast, *(source.flags if source is not None else ()), *host_flags(options.compile_flags))


def _built(source: Source, arch: str, compiler: str, options: CompileOptions) -> BuiltCode:
    made = _compiled(source, arch, hiprtc.open_hiprtc() if compiler == "hiprtc" else find_clang(), options)
    return BuiltCode(made.code, made.resources, tuple(dict.fromkeys(_WARNING.findall(made.log))))


@record
class _Compiled:
    """A code object, and the flags that it was compiled with."""

    code: bytes
    log: str
    resources: dict[str, Resources]
    flags: tuple[str, ...]


def _compiled(source: Source, arch: str, compiler: Clang | hiprtc.Hiprtc, options: CompileOptions) -> _Compiled:
    flags = _all_flags(source, options)
    return with_fewer_losses(
        lambda saving: _compiled_with((*flags, *saving), source, arch, compiler, options),
        lambda: import_module("tilelang.targets.amd.isa.save_registers").FLAGS,
    )


def _compiled_with(
    flags: tuple[str, ...], source: Source, arch: str, compiler: Clang | hiprtc.Hiprtc, options: CompileOptions
) -> _Compiled:
    # imported on use: a kernel in the cache needs none of it
    code_object = import_module("tilelang.targets.amd.runtime.code_object")
    made = compiler.compile(source.text, arch, flags)
    if options.verbose:
        print(made.command, made.log, sep="\n", file=sys.stderr)  # noqa: T201  the user asked for it
    if made.code is None:
        raise _rejection(source, made, options)
    resources = {
        name: Resources(
            registers=kernel.vector_registers,
            shared_bytes=kernel.shared_bytes,
            spill_bytes=min(kernel.spilled_registers * _REGISTER_BYTES, kernel.private_bytes),  # others go to AGPRs
            local_bytes=kernel.private_bytes,
            accumulators=kernel.accumulators,
        )
        for name, kernel in code_object.read_code_object(made.code).kernels.items()
    }
    return _Compiled(made.code, made.log, resources, flags)


def _rejection(source: Source, made: Compilation, options: CompileOptions) -> TileLangError:
    """The error for a rejected text, worded by a module that is loaded when there is one."""
    error: TileLangError = import_module("tilelang.targets.amd.runtime.clang_log").rejection(source, made, options)
    return error


def _disassembled(binary: bytes) -> str:
    import subprocess  # noqa: PLC0415  as above
    import tempfile  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    tool = find_disassembler()
    if tool is None:
        raise ToolchainError(
            "no disassembler found: llvm-objdump is not beside the clang of HIP_CLANG_PATH, ROCm or the PATH",
            hint="install ROCm's LLVM, or compile with execution_backend='clang', which writes assembly",
        )
    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary_folder()) as folder:
        path = Path(folder, "kernel.co")
        path.write_bytes(binary)
        line = [tool, "--disassemble", "--no-show-raw-insn", str(path)]
        result = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode:
        raise ToolchainError(f"{Path(tool).name}: failed with status {result.returncode}\n{result.stderr}")
    return result.stdout
