"""`python -m tilelang`: `doctor`, `cache` and `show`.

Takes the words of a command line; prints, and gives the exit status. Invariant: `show` compiles nothing, so it needs
neither a GPU nor a compiler.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilelang.api import user_frames
from tilelang.environment import cache_folder
from tilelang.errors import OptionError, TileLangError
from tilelang.ir.func import PrimFunc
from tilelang.ir.printer import to_text
from tilelang.jit.decisions import decisions
from tilelang.jit.decorator import JitFunction
from tilelang.jit.jit_impl import JITImpl
from tilelang.jit.kernel import JITKernel
from tilelang.jit.program import generate_source, snapshots
from tilelang.options import CompileOptions
from tilelang.runtime import cache
from tilelang.targets.target import Target, parse_target
from tilelang.tools.doctor import can_compile, findings, size_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what a command line says; gives the exit status."""
    chosen = _parser().parse_args(arguments)
    try:
        status: int = chosen.run(chosen)
    except TileLangError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # of the user's file
        traceback.print_exception(error.with_traceback(user_frames(error.__traceback__)))
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tilelang", description="Looks at this machine and at kernels.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    doctor = commands.add_parser("doctor", help="what was found on this machine, what is missing, how to get it")
    doctor.set_defaults(run=_doctor)
    kept = commands.add_parser("cache", help="the folder of the compile cache, and its number of kernels")
    kept.add_argument("action", nargs="?", choices=("size", "clear"), default="size")
    kept.set_defaults(run=_cache)
    show = commands.add_parser("show", help="what the compiler makes of a kernel: its program, decisions and source")
    show.add_argument("kernel", metavar="FILE:NAME", help="a kernel, or a call such as gemm.py:'matmul(64, 64)'")
    show.add_argument("--target", help="what to compile for, such as cpu, sm_80 or sm_90a")
    show.add_argument("--only", choices=("ir", "explain", "source"), help="one of the three")
    show.add_argument("--pass", dest="pass_name", metavar="PASS", help="the program after this pass")
    show.set_defaults(run=_show)
    return parser


def _doctor(_: argparse.Namespace) -> int:
    found = findings()
    print("\n".join(map(str, found)))
    return 0 if can_compile(found) else 1


def _cache(chosen: argparse.Namespace) -> int:
    kept = cache.entries()
    size = size_text(sum(path.stat().st_size for path in kept))
    if chosen.action == "clear":
        print(f"removed {cache.clear()} entries, {size}, from {cache_folder()}")
    else:
        print(f"{len(kept)} entries, {size}, in {cache_folder()}")
    return 0


def _show(chosen: argparse.Namespace) -> int:
    func, own_target, options = _kernel(chosen.kernel)
    target = parse_target(chosen.target) if chosen.target or own_target is None else own_target
    if chosen.pass_name is not None:
        shots = {shot.name: shot for shot in snapshots(func, target, options)}
        if chosen.pass_name not in shots:
            raise OptionError(f"show: no pass is called {chosen.pass_name!r}", hint=f"one of {', '.join(shots)}")
        print(shots[chosen.pass_name].text)
        return 0
    parts: dict[str, Callable[[], str]] = {
        "ir": lambda: to_text(func),
        "explain": lambda: decisions(snapshots(func, target, options), options),
        "source": lambda: generate_source(func, target, options).text,
    }
    for name, text in parts.items():
        if chosen.only in (None, name):
            print(text() if chosen.only else f"# {name}, target {target}\n{text()}\n")
    return 0


def _kernel(named: str) -> tuple[PrimFunc, Target | None, CompileOptions]:
    """The program that `FILE:NAME` or `FILE:CALL` names, and how it was compiled, if it was."""
    file, colon, expression = named.partition(":")
    if colon and not Path(file).is_file():
        raise OptionError(f"show: there is no file {file!r}", hint="write FILE.py:NAME, with the path of the file")
    if not colon:
        raise OptionError(f"show: {named!r} does not name a kernel of a file", hint="write FILE.py:NAME")
    namespace = runpy.run_path(file)
    kernels = [name for name, value in namespace.items() if isinstance(value, PrimFunc | JITKernel | JITImpl)]
    hint = f"it has {', '.join(kernels) or 'no kernels'}"
    try:
        found: Any = eval(expression, namespace)  # what the user typed
    except NameError:
        raise OptionError(f"show: {file} has no {expression!r}", hint=hint) from None
    except SyntaxError as error:
        what = f"show: {expression!r} is no expression of Python: {error.msg}"
        raise OptionError(what, hint="write FILE.py:NAME, or FILE.py:'NAME(64, 64)'") from None
    if isinstance(found, JitFunction) and not _needed(found):
        found = found.get_tir()
    if isinstance(found, JITKernel):
        return found.prim_func, found.target, found.options
    if isinstance(found, PrimFunc):
        return found, None, CompileOptions()
    if isinstance(found, JITImpl):
        what = f"show: {expression!r} is a function that needs arguments, not a kernel"
        if found.mode == "lazy":
            hint = f"write the call: {file}:'{expression}({', '.join(['128'] * len(_needed(found)))})'"
        else:
            hint = f"give it tensors of the file, or its sizes: {file}:'{expression}.get_tir(M=128, N=128)'"
        raise OptionError(what, hint=hint)
    raise OptionError(f"show: {expression!r} is of type {type(found).__name__}, not a kernel", hint=hint)


def _needed(function: JITImpl) -> list[str]:
    """The parameters that a call must give."""
    parameters = function.signature.parameters.items()
    return [name for name, p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
