"""Words what a compiler of device code rejected: its complaint, our line, and the line of the user's program.

Takes a `Source` and what a compiler said of it; gives the error to raise. Invariant: a complaint about text that the
user wrote (flags, inline assembly, imported code) is a `ToolchainError`, one about text of this package alone a
`CompilerBug`.
"""

from __future__ import annotations

from pathlib import Path

from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug, Note, TileLangError, ToolchainError
from tilelang.options import CompileOptions
from tilelang.records import record

_LOG_LINES = 20  # of a log that a message quotes


@record
class Compilation:
    """The result of a compiler on a text.

    Attributes:
        code: What was asked for: machine code or a text; None if the text was rejected.
        log: What the compiler said.
        command: The command line, as it was or would be typed.
    """

    code: bytes | None
    log: str
    command: str

    @property
    def compiler(self) -> str:
        """The compiler's name."""
        return self.command.split()[0].rsplit("/", 1)[-1]


def kept_source(source: Source, compilation: Compilation, file_name: str) -> tuple[Note, ...]:
    """Writes the text into a file that stays; gives the note that says where."""
    import tempfile  # noqa: PLC0415  a kernel in the cache needs none

    kept = Path(tempfile.mkdtemp(prefix="tilelang-"), file_name)
    kept.write_text(source.text, encoding="utf-8", errors="backslashreplace")
    return (Note(f"the generated source is {kept}; the command was\n{compilation.command}"),)


def rejected_line(
    source: Source,
    compilation: Compilation,
    options: CompileOptions,
    number: int,
    complaint: str,
    notes: tuple[Note, ...],
    own_text: str,
) -> TileLangError:
    """The error for a complaint about a line of the text.

    Args:
        source: What was compiled.
        compilation: Its result.
        options: The user's flags.
        number: The line, from 1.
        complaint: What the compiler said about it.
        notes: As `kept_source` gives.
        own_text: The functions by which a user includes text in a kernel.
    """
    lines = source.text.splitlines()
    generated = lines[number - 1].strip() if number <= len(lines) else ""
    message = f"generated line {number}: {complaint}\n    {generated}"
    loc = source.loc_of(number)
    if source.has_user_code:
        return ToolchainError(
            f"{compilation.compiler}: rejected kernel '{source.entry}', which uses code of your own: {message}",
            loc=loc,
            notes=notes,
            hint=f"check the names, types and includes of what {own_text} was given",
        )
    if options.compile_flags:
        return ToolchainError(
            f"{compilation.compiler}: rejected kernel '{source.entry}' compiled with {list(options.compile_flags)}: "
            f"{message}",
            loc=loc,
            notes=notes,
            hint="leave compile_flags out, or correct them",
        )
    return CompilerBug(
        f"{compilation.compiler}: rejected the code generated for kernel '{source.entry}', which is a bug in tilelang: "
        f"{message}",
        loc=loc,
        notes=notes,
    )


def failed_compiler(
    source: Source, compilation: Compilation, options: CompileOptions, notes: tuple[Note, ...]
) -> TileLangError:
    """The error for a compiler that complained about no line of the text."""
    log = _shortened(compilation.log)
    return ToolchainError(
        f"{compilation.compiler}: failed while compiling kernel '{source.entry}'\n{log}".rstrip(),
        notes=notes,
        hint=f"check compile_flags={list(options.compile_flags)}" if options.compile_flags else "",
    )


def _shortened(log: str) -> str:
    lines = log.splitlines()
    more = len(lines) - _LOG_LINES
    return log if more <= 0 else "\n".join([*lines[:_LOG_LINES], f"... and {more} more lines"])
