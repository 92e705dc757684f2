"""Clang for AMD GPUs: finds one with its linker, and compiles HIP text to a code object.

Takes text, an architecture and flags; gives a `Compilation`. A clang of ROCm, of the package ziglang or of the system
works: the text includes no header and calls no library. Invariant: the version of a compiler is kept in the compile
cache, so that it is started for compilation only.

Source: LLVM, "User Guide for AMDGPU Backend" and "HIP Support" of clang, for the command lines.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilelang.environment import is_cache_enabled, temporary_folder
from tilelang.errors import ToolchainError
from tilelang.records import record
from tilelang.runtime import cache
from tilelang.targets.cpu.runtime.toolchain import fingerprint
from tilelang.targets.gpu.runtime.compile_log import Compilation

OLDEST = 19  # fences for shared memory alone
_NEWEST = 30  # of the names with a version that are looked for
INSTALL = "pip install 'ziglang>=0.17' (clang 22 and lld), or `apt install clang-19 lld-19` or newer, or install ROCm"

# halves of registers are permuted by twos, not moved one by one
_FEATURES = ("-Xclang", "-target-feature", "-Xclang", "-real-true16")
_LANGUAGE = ("-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib")
# one process instead of an assembler's besides: complaints about inline assembly then name the line of the text
_OBJECT = ("-S", "-Xclang", "-emit-obj")
_CODE_OBJECT = ("-mcode-object-version=5",)  # which every driver since ROCm 6.0 reads
_UNKNOWN_ARCH = re.compile(r"unsupported HIP gpu architecture|invalid target ID|unknown target CPU")


@record
class Clang:
    """A clang that compiles for AMD GPUs.

    Attributes:
        command: The command, without options.
        linker: The command of the lld that belongs to it.
        version: As "22.1.8".
    """

    command: tuple[str, ...]
    linker: tuple[str, ...]
    version: str

    def __str__(self) -> str:
        return f"clang {self.version} ({shlex.join(self.command)})"

    @property
    def identity(self) -> str:
        """Names the compiler and the linker, for cache keys."""
        return " ".join((*self.command, fingerprint(self.command), *self.linker, fingerprint(self.linker)))

    def compile(self, text: str, arch: str, flags: Sequence[str] = (), *, assembly: bool = False) -> Compilation:
        """The code object for an architecture such as "gfx942", or the assembly of it.

        Raises:
            ToolchainError: The compiler cannot be started, or does not know the architecture.
        """
        import tempfile  # noqa: PLC0415  a kernel in the cache makes no folder

        output = "kernel.s" if assembly else "kernel.o"
        form = ("-S",) if assembly else _OBJECT
        line = [*self.command, *_LANGUAGE, *_FEATURES, f"--offload-arch={arch}", *_CODE_OBJECT, *flags, *form]
        line += ["kernel.hip", "-o", output]
        with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary_folder()) as folder:
            Path(folder, "kernel.hip").write_text(text, encoding="utf-8", errors="backslashreplace")
            log, done = _run(line, folder)
            if not done and _UNKNOWN_ARCH.search(log):
                raise ToolchainError(f"{self} cannot compile for {arch}", hint=f"newer: {INSTALL}")
            if done and not assembly:
                output = "kernel.co"
                linked, done = _run([*self.linker, "-m", "elf64_amdgpu", "-shared", "kernel.o", "-o", output], folder)
                log += linked
            made = Path(folder, output).read_bytes() if done else None
        return Compilation(made, log.strip(), shlex.join(line))


def find_clang() -> Clang:
    """The clang to use: that of HIP_CLANG_PATH, of ROCm, of the package ziglang, or the newest on the PATH.

    Raises:
        ToolchainError: None of them compiles for AMD GPUs.
    """
    return _found(*_environment())


def _environment() -> tuple[str, str, str]:
    """The variables of the environment that say where a clang is."""
    chosen, rocm, path = (os.environ.get(name, "") for name in ("HIP_CLANG_PATH", "ROCM_PATH", "PATH"))
    return chosen, rocm, path


@functools.lru_cache(maxsize=4)
def _found(chosen: str, rocm: str, path: str) -> Clang:
    """The clang to use in an environment."""
    refused = []
    for command, linker in _candidates(chosen, rocm, path):
        version = _version_of(command)
        if linker is None:
            refused.append(f"{command[0]} has no ld.lld beside it or on the PATH")
        elif int(version.partition(".")[0] or 0) < OLDEST:
            refused.append(f"{command[0]} is clang {version or 'of no known version'}, and {OLDEST} or newer is needed")
        else:
            return Clang(command, linker, version)
    why = "; ".join(refused) or "none is below HIP_CLANG_PATH and ROCM_PATH, in the package ziglang, or on the PATH"
    raise ToolchainError(f"no clang found that compiles for AMD GPUs: {why}", hint=INSTALL)


def _candidates(chosen: str, rocm: str, path: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """The commands of compilers, each with that of its linker if there is one, best first."""
    folders = [chosen, str(Path(rocm, "llvm", "bin")) if rocm else "", "/opt/rocm/llvm/bin"]
    for folder in filter(None, folders):
        found = shutil.which("clang", path=folder)
        if found:
            yield (found,), _linker(found, path)
    zig = _zig()
    if zig is not None:
        yield (zig, "clang"), (zig, "ld.lld")
    for name in ("clang", *(f"clang-{version}" for version in range(_NEWEST, OLDEST - 1, -1))):
        found = shutil.which(name, path=path)
        if found:
            yield (found,), _linker(found, path)


def _linker(clang: str, path: str) -> tuple[str, ...] | None:
    """The lld of a clang: of its folder or of the PATH, of the same version where the name says one."""
    suffix = Path(clang).stem.removeprefix("clang")
    for name in (f"ld.lld{suffix}", "ld.lld"):
        found = shutil.which(name, path=str(Path(os.path.realpath(clang)).parent)) or shutil.which(name, path=path)
        if found:
            return (found,)
    return None


def _zig() -> str | None:
    """The program of the package ziglang; None without it."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.origin:
        return None
    return shutil.which("zig", path=str(Path(spec.origin).parent))


def _version_of(command: tuple[str, ...]) -> str:
    """The version of a clang, as "22.1.8"; empty if its output has none."""
    key = cache.key_of("version of clang", *command, fingerprint(command))
    known = cache.lookup(key, ".version") if is_cache_enabled() else None
    if known is not None:
        return known.decode()
    log, _ = _run([*command, "--version"], None)
    said = re.search(r"clang version (\d+(?:\.\d+)*)", log)
    version = said[1] if said else ""
    if is_cache_enabled():
        cache.store(key, ".version", version.encode())
    return version


def _run(line: list[str], folder: str | None) -> tuple[str, bool]:
    """What a program printed, and whether it succeeded.

    Raises:
        ToolchainError: It cannot be started.
    """
    import subprocess  # noqa: PLC0415  a kernel in the cache starts no process

    try:
        result = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False, cwd=folder)
    except OSError as error:
        raise ToolchainError(f"{line[0]}: cannot be started: {error}") from None
    return result.stdout + result.stderr, result.returncode == 0


def find_disassembler() -> str | None:
    """The path of llvm-objdump beside the first clang there is, as ROCm has it; None without one."""
    for command, _ in _candidates(*_environment()):
        found = shutil.which("llvm-objdump", path=str(Path(os.path.realpath(command[0])).parent))
        if found:
            return found
    return None
