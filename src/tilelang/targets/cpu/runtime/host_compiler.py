"""Compiles generated C++ to a callable entry point, through the compile cache.

Invariant: the same source, flags, compiler and processor are compiled once per cache folder, by any number of
processes.
"""

from __future__ import annotations

import functools
import re
import shlex
import sys
from pathlib import Path

from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug, Note, ToolchainError
from tilelang.options import CompileOptions
from tilelang.runtime import cache
from tilelang.runtime.compile_flags import host_flags
from tilelang.targets.cpu.runtime.library import Entry, open_entry, start_text
from tilelang.targets.cpu.runtime.toolchain import Compiler, find_compiler

# -fwrapv: data integers wrap; -fno-strict-aliasing: views name bytes under another dtype
_FLAGS = (
    "-std=c++17", "-O3", "-fPIC", "-shared", "-fwrapv", "-fno-strict-aliasing", "-fno-math-errno",
    "-ffp-contract=fast", "-w",
)  # fmt: skip
# what -ffast-math means, without giving up NaN and infinity or changing the processor's mode for the whole process;
# reordering sums would undo the range reductions of our elementary functions
_FAST_MATH = ("-freciprocal-math", "-fno-signed-zeros")

_OTHER_COMPILER = "set CXX to another C++ compiler (`CXX=clang++ python ...`)"

_LOG_LINES = 20  # of a log that a message quotes

_PLACE = re.compile(r"kernel\.cpp:(\d+)(?::\d+)?: (?:fatal )?error: (.*)")


def identity(options: CompileOptions) -> str:
    """Everything besides the source that determines the machine code.

    Raises:
        ToolchainError: There is no usable compiler.
    """
    compiler = find_compiler()
    return cache.key_of(compiler.identity, *_flags(compiler, options), *host_flags(options.compile_flags))


def build(source: Source, options: CompileOptions = CompileOptions()) -> Entry:
    """The entry of the compiled source, from the cache if possible.

    Raises:
        ToolchainError: No usable compiler, it crashed, or it rejected the user's own flags.
        CompilerBug: The compiler rejected our text.
    """
    compiler = find_compiler()
    flags = (*_flags(compiler, options), *source.flags)
    text = source.key_text + start_text(source.entry)
    key = cache.key_of(text, compiler.identity, *flags, *host_flags(options.compile_flags))
    make = functools.partial(_compiled, source, compiler, flags, options)
    # an open library outlives its file
    return cache.open_or_make(key, ".so", make, lambda path: open_entry(path, source.entry))


def shared_object(source: Source, options: CompileOptions = CompileOptions()) -> bytes:
    """The path of the newly compiled source.

    Raises:
        ToolchainError: As `build`.
        CompilerBug: As `build`.
    """
    compiler = find_compiler()
    return _compiled(source, compiler, (*_flags(compiler, options), *source.flags), options)


def _flags(compiler: Compiler, options: CompileOptions) -> tuple[str, ...]:
    """Our flags; those of the user are at the end of the command line, so that they take precedence."""
    return (*_FLAGS, *compiler.flags, *(_FAST_MATH if options.fast_math else ()))


def _compiled(source: Source, compiler: Compiler, flags: tuple[str, ...], options: CompileOptions) -> bytes:
    """The bytes of the shared object."""
    import shutil  # noqa: PLC0415  a kernel in the cache starts no process and makes no folder
    import subprocess  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    folder = Path(tempfile.mkdtemp(prefix="tilelang-"))
    text, output = folder / "kernel.cpp", folder / "kernel.so"
    text.write_text(source.text + start_text(source.entry), encoding="utf-8", errors="backslashreplace")
    line = [*compiler.command, *flags, str(text), *host_flags(options.compile_flags), "-o", str(output)]
    try:
        result = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        shutil.rmtree(folder)
        raise ToolchainError(f"{compiler}: cannot be started: {error}") from None
    log = (result.stdout + result.stderr).strip()
    if options.verbose:
        print(shlex.join(line), log, sep="\n" if log else "", file=sys.stderr)  # noqa: T201  the user asked for it
    if result.returncode != 0 or not output.exists():
        source_note = Note(f"the generated source is {text}; the command was\n{shlex.join(line)}")
        raise _rejection(source, compiler, options, result.returncode, log, source_note)
    content = output.read_bytes()
    shutil.rmtree(folder)
    return content


def _rejection(
    source: Source, compiler: Compiler, options: CompileOptions, status: int, log: str, source_note: Note
) -> ToolchainError | CompilerBug:
    """The error of a failed compilation; the source is not deleted."""
    location = _PLACE.search(log)
    if location is None:
        what = f"failed with status {status}" if status else "wrote no file"
        what = f"was killed by signal {-status}" if status < 0 else what
        return ToolchainError(
            f"{compiler}: {what} while compiling kernel '{source.entry}'\n{_shortened(log)}".rstrip(),
            notes=(source_note,),
            hint=f"check compile_flags={list(options.compile_flags)}" if options.compile_flags else _OTHER_COMPILER,
        )
    number = int(location[1])
    generated = source.text.splitlines()[number - 1].strip() if number <= len(source.text.splitlines()) else ""
    message = f"generated line {number}: {location[2]}\n    {generated}"
    if options.compile_flags:
        return ToolchainError(
            f"{compiler}: rejected kernel '{source.entry}' compiled with {list(options.compile_flags)}: {message}",
            loc=source.loc_of(number),
            notes=(source_note,),
            hint="leave compile_flags out, or correct them",
        )
    return CompilerBug(
        f"{compiler}: rejected the code generated for kernel '{source.entry}', which is a bug in tilelang: {message}",
        loc=source.loc_of(number),
        notes=(source_note,),
    )


def _shortened(log: str) -> str:
    lines = log.splitlines()
    more = len(lines) - _LOG_LINES
    return log if more <= 0 else "\n".join([*lines[:_LOG_LINES], f"... and {more} more lines"])
