from pathlib import Path

import pytest

from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug, Loc, TileLangError, ToolchainError
from tilelang.options import CompileOptions
from tilelang.targets.gpu.runtime.compile_log import (
    Compilation,
    failed_compiler,
    kept_source,
    rejected_line,
)

USER, OTHER = Loc("user.py", 12, 4), Loc("user.py", 13, 4)
MADE = Compilation(None, "said", "/opt/bin/compiler -O3 kernel.x")


def source(*, has_user_code: bool = False) -> Source:
    return Source("any", "one\n  two\nthree\n", "k", {2: USER, 5: OTHER}, has_user_code=has_user_code)


def rejected(source: Source, options: CompileOptions = CompileOptions(), line: int = 2) -> TileLangError:
    return rejected_line(source, MADE, options, line, "what is that?", (), "T.import_source")


def test_the_compiler_is_the_program_of_its_command() -> None:
    assert "compiler" == MADE.compiler


def test_our_text_is_our_fault() -> None:
    error = rejected(source())
    assert isinstance(error, CompilerBug)
    assert (
        "compiler: rejected the code generated for kernel 'k', which is a bug in tilelang: "
        "generated line 2: what is that?\n    two"
    ) == error.message
    assert USER == error.loc


def test_the_users_text_and_flags_are_the_users_fault() -> None:
    foreign, flags = rejected(source(has_user_code=True)), rejected(source(), CompileOptions(compile_flags=("-x",)))
    assert isinstance(foreign, ToolchainError)
    assert isinstance(flags, ToolchainError)
    assert "check the names, types and includes of what T.import_source was given" == foreign.hint
    assert "leave compile_flags out, or correct them" == flags.hint
    assert flags.message.startswith("compiler: rejected kernel 'k' compiled with ['-x']: generated line 2:")


def test_a_line_beyond_the_text_has_no_text() -> None:
    assert rejected(source(), line=99).message.endswith("generated line 99: what is that?\n    ")


@pytest.mark.parametrize(("count", "last"), [(20, "line 19"), (25, "... and 5 more lines")])
def test_a_compiler_that_names_no_line_is_quoted_up_to_20_lines(count: int, last: str) -> None:
    log = "\n".join(f"line {n}" for n in range(count))
    error = failed_compiler(source(), Compilation(None, log, "compiler x"), CompileOptions(compile_flags=("-y",)), ())
    assert error.message.splitlines()[0] == "compiler: failed while compiling kernel 'k'"
    assert last == error.message.splitlines()[-1]
    assert "check compile_flags=['-y']" == error.hint


def test_the_text_is_kept() -> None:
    (note,) = kept_source(source(), MADE, "kernel.x")
    where, command = note.text.splitlines()
    path = where.removeprefix("the generated source is ").removesuffix("; the command was")
    assert source().text == Path(path).read_text()
    assert MADE.command == command
