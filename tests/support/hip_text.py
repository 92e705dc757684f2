"""Compiles HIP texts, whole ones and those of single operations, and runs texts without words of HIP on the host."""

import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cpp import PLAIN, compile_functions
from hip_kernels import ARCHES, needs_clang

from tilelang.codegen.source import Source
from tilelang.ir.func import PrimFunc
from tilelang.isa.intrinsic import Helper, ordered_helpers
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.amd.backend import BACKEND
from tilelang.targets.amd.isa.types import PRELUDE
from tilelang.targets.amd.runtime.toolchain import find_clang
from tilelang.targets.target import Target

__all__ = ["ARCHES", "GENERATIONS", "assembly_of", "function_of", "hip_source", "needs_clang", "on_host", "printed"]

GENERATIONS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")  # one machine of each
_FLAGS = ("-std=c++17", "-O3", "-fno-strict-aliasing", "-Werror", "-Wno-parentheses")


def printed(func: PrimFunc, arch: str) -> Source:
    """The HIP source of a program."""
    return BACKEND.emit(run_passes(func, BACKEND.passes, PassContext(target=Target("hip", arch))))


def assembly_of(text: str, arch: str) -> str:
    """What clang makes of a text without a warning, of which its assembler and linker make a code object."""
    clang = find_clang()
    made = clang.compile(text, arch, _FLAGS, assembly=True)
    assert made.code is not None, f"{arch}: {made.log[:2000]}"
    assert made.log == ""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.s").write_bytes(made.code)
        as_code = ("-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", "-c", "kernel.s", "-o", "kernel.o")
        as_shared = ("-m", "elf64_amdgpu", "-shared", "kernel.o", "-o", "kernel.co")
        for line in ((*clang.command, *as_code), (*clang.linker, *as_shared)):
            done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
            assert (0, "") == (done.returncode, done.stdout + done.stderr), f"{arch}: {done.stderr[:2000]}"
    return made.code.decode()


def hip_source(helpers: Iterable[Helper | None], functions: Iterable[str]) -> str:
    """Functions behind the helpers that they need."""
    ordered = ordered_helpers(helper for helper in helpers if helper is not None)
    return "\n".join([PRELUDE, *(helper.text for helper in ordered), *functions])


def function_of(name: str, result: str, kinds: Iterable[str], text: str) -> str:
    """A kernel that stores the value of an expression of a[i], b[i] and c[i], elements of arrays of these types."""
    parameters = ", ".join([f"{result}* made", *(f"const {kind}* {each}" for kind, each in zip(kinds, "abc", strict=False))])
    return (
        f'extern "C" __global__ void {name}({parameters}) {{\n'
        f"    const int i = (int)__builtin_amdgcn_workitem_id_x();\n    made[i] = {text};\n}}"
    )


def on_host(helpers: Iterable[Helper | None], functions: Iterable[str]):
    """The library of functions of the host, in strict arithmetic, from texts that only name C++ and builtins."""
    return compile_functions(helpers, functions, (*PLAIN, "-ffp-contract=off"))
