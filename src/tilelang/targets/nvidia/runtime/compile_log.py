"""Reads what a CUDA compiler or its assembler rejected.

Takes a `Source` and a failed `Compilation`; gives the error to raise, as `targets.gpu.runtime.compile_log` words it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug, Note, TileLangError, ToolchainError
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.targets.gpu.runtime.compile_log import (
    Compilation,
    failed_compiler,
    kept_source,
    rejected_line,
)

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


_OWN_TEXT = "T.import_source, T.call_extern or T.inline_ptx"


def rejection(
    source: Source,
    compilation: Compilation,
    options: CompileOptions,
    again: Callable[[], tuple[str, str]] | None = None,
) -> TileLangError:
    """The error for a text that a compiler rejected; the text is kept in a file.

    Args:
        source: What was compiled.
        compilation: Its result.
        options: The user's flags.
        again: Gives the PTX with the lines it came from, and the assembler's messages on it; called only if the
            assembler complained.
    """
    notes = kept_source(source, compilation, "kernel.cu")
    location = _FRONT_END.search(compilation.log)
    if location is not None:
        return rejected_line(source, compilation, options, int(location[1]), location[2], notes, _OWN_TEXT)
    if again is not None and _ASSEMBLER.search(compilation.log):
        return _assembler(source, *again(), notes)
    return failed_compiler(source, compilation, options, notes)


def _assembler(source: Source, ptx: str, log: str, notes: tuple[Note, ...]) -> TileLangError:
    """The error for PTX that does not assemble."""
    complaints = [(int(m[1]), m[2].strip()) for m in _ASSEMBLER.finditer(log)]
    assembly = _assembly_at(ptx, complaints[0][0]) if complaints else _Assembly("", ())
    said = "; ".join(list(dict.fromkeys(text for _, text in complaints))[:4])
    loc = next((source.loc_of(number) for number in reversed(assembly.lines)), None)
    shown = f"\n    {assembly.text}" if assembly.text else ""
    if source.has_user_code and assembly.text:
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
    location = next(places, None)
    origin = tuple(int(group) for group in location.groups() if group) if location else ()
    start = next((n for n in range(len(before), 0, -1) if _BEGIN in before[n - 1] or _END in before[n - 1]), 0)
    if not start or _BEGIN not in before[start - 1]:
        return _Assembly("", origin)
    stop = next((n for n, line in enumerate(after) if _END in line), 0)
    text = [line.strip() for line in (*before[start:], *after[:stop])]
    return _Assembly("\n    ".join(text), origin)
