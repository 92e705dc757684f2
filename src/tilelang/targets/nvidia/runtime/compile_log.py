"""Words what a CUDA compiler rejected: its complaint, our line, and the line of the user's program it came from.

Takes a `Source` and a failed `Compilation`; gives the error to raise. Invariant: a complaint about text that the user
wrote (flags, inline PTX, imported code) is a `ToolchainError`, one about text of this package alone a `CompilerBug`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug, Loc, Note, TileLangError, ToolchainError
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.targets.nvidia.runtime.nvrtc import Compilation

_FRONT_END = re.compile(r"kernel\.cu\((\d+)\): (?:catastrophic )?error\s*(?:#\S+)?: (.*)")
_ASSEMBLER = re.compile(r"ptxas .*?line (\d+); (?:error|fatal)\s*: (.*)")
_LOC = re.compile(r"\.loc\s+\d+ (\d+) \d+(?:.*inlined_at \d+ (\d+))?")
_BEGIN, _END = "// begin inline asm", "// end inline asm"


@record
class _Assembly:
    """The inline assembly around a line of PTX.

    Attributes:
        text: The instructions, as the compiler filled them in; empty if the line is in none.
        lines: Lines of the generated source that it came from: its own, then that of the call it was inlined into.
    """

    text: str
    lines: tuple[int, ...]


def rejection(
    source: Source, made: Compilation, options: CompileOptions, again: Callable[[], tuple[str, str]] | None = None
) -> TileLangError:
    """The error for a text that a compiler rejected; the text is kept in a file.

    Args:
        source: What was compiled.
        made: What came of it.
        options: The user's flags.
        again: Gives the PTX with the lines it came from, and the assembler's messages on it; called only if the
            assembler complained.
    """
    kept = Path(tempfile.mkdtemp(prefix="tilelang-"), "kernel.cu")
    kept.write_text(source.text, encoding="utf-8", errors="backslashreplace")
    notes = (Note(f"the generated source is {kept}; the command was\n{made.command}"),)
    compiler = made.command.split()[0].rsplit("/", 1)[-1]
    place = _FRONT_END.search(made.log)
    if place is not None:
        return _front_end(source, compiler, options, int(place[1]), place[2], notes)
    if again is not None and _ASSEMBLER.search(made.log):
        return _assembler(source, *again(), notes)
    return ToolchainError(
        f"{compiler}: failed while compiling kernel '{source.entry}'\n{_shortened(made.log)}".rstrip(),
        notes=notes,
        hint=f"check compile_flags={list(options.compile_flags)}" if options.compile_flags else "",
    )


def _front_end(
    source: Source, compiler: str, options: CompileOptions, number: int, complaint: str, notes: tuple[Note, ...]
) -> TileLangError:
    lines = source.text.splitlines()
    generated = lines[number - 1].strip() if number <= len(lines) else ""
    message = f"generated line {number}: {complaint}\n    {generated}"
    loc = place_of(source, number)
    if source.foreign:
        return ToolchainError(
            f"{compiler}: rejected kernel '{source.entry}', which uses code of your own: {message}",
            loc=loc,
            notes=notes,
            hint="check the names, types and includes of what T.import_source, T.call_extern or T.inline_ptx was given",
        )
    if options.compile_flags:
        return ToolchainError(
            f"{compiler}: rejected kernel '{source.entry}' compiled with {list(options.compile_flags)}: {message}",
            loc=loc,
            notes=notes,
            hint="leave compile_flags out, or correct them",
        )
    return CompilerBug(
        f"{compiler}: rejected the code generated for kernel '{source.entry}', which is a bug in tilelang: {message}",
        loc=loc,
        notes=notes,
    )


def _assembler(source: Source, ptx: str, log: str, notes: tuple[Note, ...]) -> TileLangError:
    """The error for PTX that does not assemble."""
    complaints = [(int(m[1]), m[2].strip()) for m in _ASSEMBLER.finditer(log)]
    assembly = _assembly_at(ptx, complaints[0][0]) if complaints else _Assembly("", ())
    said = "; ".join(list(dict.fromkeys(text for _, text in complaints))[:4])
    loc = next((place_of(source, number) for number in reversed(assembly.lines)), None)
    shown = f"\n    {assembly.text}" if assembly.text else ""
    if source.foreign and assembly.text:
        return ToolchainError(
            f"inline PTX of kernel '{source.entry}' does not assemble: {said}{shown}",
            loc=loc,
            notes=notes,
            hint="check the template of T.inline_ptx against the PTX ISA; the compiler put registers for its operands",
        )
    return CompilerBug(
        f"ptxas: rejected the code generated for kernel '{source.entry}', which is a bug in tilelang: {said}{shown}",
        loc=loc,
        notes=notes,
    )


def _assembly_at(ptx: str, number: int) -> _Assembly:
    """The inline assembly around a line of PTX, counted from 1."""
    lines = ptx.splitlines()
    before, after = lines[: number - 1], lines[number - 1 :]
    places = (match for line in reversed(before) if (match := _LOC.search(line)))
    place = next(places, None)
    origin = tuple(int(group) for group in place.groups() if group) if place else ()
    start = next((n for n in range(len(before), 0, -1) if _BEGIN in before[n - 1] or _END in before[n - 1]), 0)
    if not start or _BEGIN not in before[start - 1]:
        return _Assembly("", origin)
    stop = next((n for n, line in enumerate(after) if _END in line), 0)
    text = [line.strip() for line in (*before[start:], *after[:stop])]
    return _Assembly("\n    ".join(text), origin)


def place_of(source: Source, number: int) -> Loc | None:
    """The user's place for a generated line, or for the nearest one before it that has one."""
    before = [line for line in source.lines if line <= number]
    return source.lines[max(before)] if before else None


def _shortened(log: str, lines: int = 20) -> str:
    parts = log.splitlines()
    return log if len(parts) <= lines else "\n".join([*parts[:lines], f"... and {len(parts) - lines} more lines"])
