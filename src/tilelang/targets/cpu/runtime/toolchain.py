"""Finds a C++ compiler and probes, once per compiler, which flags it accepts.

Takes $CXX and the PATH, gives a `Compiler`. Results are stored on disk under the compiler's path, size and modification
time, so that a known compiler is not started for probing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import sys
from functools import lru_cache
from pathlib import Path

from tilelang.environment import environment, is_cache_enabled
from tilelang.errors import ToolchainError
from tilelang.records import record
from tilelang.runtime import cache

SEARCHED = ("c++", "g++", "clang++")

_INSTALL = (
    "install g++ (`apt install g++`, `dnf install gcc-c++`, `xcode-select --install`), or `pip install ziglang`, "
    "or set CXX to a C++ compiler (`CXX=clang++ python ...`)"
)

_PROBE = """
#include <cmath>
#include <cstdint>
#include <cstdlib>
#ifdef _OPENMP
#include <omp.h>
int threads() { return omp_get_max_threads(); }
#endif
extern "C" int tilelang_probe() { return 0; }
"""
_OPTIONAL = ("-fopenmp", "-march=native", "-mprefer-vector-width=512", "-fno-trapping-math")


@record(slots=True)
class Compiler:
    """A usable C++ compiler.

    Attributes:
        command: The command, without options.
        identity: Its file, version and target processor; part of cache keys.
        flags: The accepted optional flags.
    """

    command: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]

    @property
    def openmp(self) -> bool:
        """Whether it supports OpenMP."""
        return "-fopenmp" in self.flags

    def __str__(self) -> str:
        return shlex.join(self.command)


def find_compiler() -> Compiler:
    """The compiler to use: $CXX, else the first that compiles and links a function.

    It is searched for as c++, g++, clang++, each in all folders of the PATH, and at last in the package ziglang.

    Raises:
        ToolchainError: There is none, or none that can compile a function.
    """
    logs = []
    for command in _commands():
        found = _examine(command)
        if isinstance(found, Compiler):
            return found
        logs.append(f"{shlex.join(command)}: cannot compile a C++ function into a shared object\n{found}")
    raise ToolchainError("\n".join(logs), hint=_INSTALL)


def _commands() -> tuple[tuple[str, ...], ...]:
    """The commands of the compilers that may be used, the first choice first."""
    chosen = environment("CXX")
    if chosen:
        try:
            words = shlex.split(chosen)
        except ValueError as error:
            raise ToolchainError(
                f"CXX={chosen}: not a command line: {error}", hint="write CXX as in a shell: a program and its options"
            ) from None
        path = shutil.which(words[0])
        if path is None:
            raise ToolchainError(f"CXX={chosen}: no such program", hint=f"unset CXX, or {_INSTALL}")
        return ((path, *words[1:]),)
    folders: dict[str, str] = {}
    for folder in os.get_exec_path():
        folders.setdefault(os.path.realpath(folder), folder)
    found = [(path,) for name in SEARCHED for at in folders.values() if (path := shutil.which(name, path=at))]
    if importlib.util.find_spec("ziglang") is not None:
        return (*found, (sys.executable, "-m", "ziglang", "c++"))
    if not found:
        raise ToolchainError(
            "no C++ compiler found: CXX is not set, and none of c++, g++, clang++ and the package ziglang is there",
            hint=_INSTALL,
        )
    return tuple(found)


@lru_cache(maxsize=16)
def _examine(command: tuple[str, ...]) -> Compiler | str:
    """The compiler of a command; if it cannot compile a function, its log."""
    identity = cache.key_of(*command, fingerprint(command), processor(), *_OPTIONAL, _PROBE)
    known = cache.lookup(identity, ".compiler") if is_cache_enabled() else None
    if known is not None:
        return Compiler(command, identity, tuple(json.loads(known)))
    flags = _probe(command)
    if isinstance(flags, str):
        return flags
    if is_cache_enabled():
        cache.store(identity, ".compiler", json.dumps(flags).encode())
    return Compiler(command, identity, flags)


def fingerprint(command: tuple[str, ...]) -> str:
    """A text that changes when the compiler is replaced, without starting it."""
    if command[1:2] == ("-m",):
        spec = importlib.util.find_spec(command[2])
        path = Path(spec.origin) if spec is not None and spec.origin else Path(command[0])
    else:
        path = Path(command[0])
    real = os.path.realpath(path)
    status = os.stat(real)
    return f"{real} {status.st_size} {status.st_mtime_ns}"


@lru_cache(maxsize=1)
def processor() -> str:
    """The instruction sets of this machine, for code with -march=native."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("flags", "Features", "model name", "cpu family", "model", "vendor_id", "CPU part", "CPU implementer")
    lines = {line for line in text.splitlines() if line.split("\t")[0].split(":")[0].strip() in wanted}
    return f"{platform.machine()} {hashlib.sha256(chr(10).join(sorted(lines)).encode()).hexdigest()}"


def _probe(command: tuple[str, ...]) -> tuple[str, ...] | str:
    """The optional flags that the compiler accepts; its log if it cannot compile without them either."""
    if _try(command, _OPTIONAL) is None:
        return _OPTIONAL
    log = _try(command, ())
    if log is not None:
        return log.strip()
    accepted: tuple[str, ...] = ()
    for flag in _OPTIONAL:
        if _try(command, (*accepted, flag)) is None:
            accepted = (*accepted, flag)
    return accepted


def _try(command: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    """None if the probe compiles and links with these flags, else the log of the compiler."""
    import subprocess  # noqa: PLC0415  a kernel in the cache starts no process
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="tilelang-") as folder:
        source = Path(folder, "probe.cpp")
        source.write_text(_PROBE)
        output = str(Path(folder, "probe.so"))
        line = [*command, "-std=c++17", "-Werror", *flags, "-fPIC", "-shared", str(source), "-o", output]
        try:
            result = subprocess.run(line, capture_output=True, text=True, check=False)
        except OSError as error:
            return str(error)
        return None if result.returncode == 0 else result.stdout + result.stderr or f"exit status {result.returncode}"
