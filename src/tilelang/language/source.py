"""Finds the source of a Python function: its syntax tree and the file whose lines error messages show.

Files and notebook cells come from `linecache`. Code given to `exec`, `python -c` and the interactive prompt leaves no
file behind; there we look at the strings that the calling frames hold, at the interpreter's command line and at the
prompt's history, and accept a text only if compiling it gives this very function.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import os
import stat
import sys
import types
from collections.abc import Iterator

from tilelang.errors import Loc, StagingError
from tilelang.records import record


@record(slots=True)
class FunctionSource:
    """A function's syntax tree with exact positions.

    Attributes:
        node: The `def`; positions count in lines of `file`.
        file: The name under which `linecache` knows the lines.
        lines: All lines of the file.
    """

    node: ast.FunctionDef
    file: str
    lines: tuple[str, ...]

    def loc(self, node: ast.AST, end: ast.AST | None = None) -> Loc:
        """The place of a node; with `end`, from the node's start to the end of that one."""
        last = end or node
        start_line, stop_line = node.lineno, last.end_lineno  # type: ignore[attr-defined]
        return Loc(
            self.file,
            start_line,
            self._column(start_line, node.col_offset),  # type: ignore[attr-defined]
            stop_line,
            self._column(stop_line, last.end_col_offset),  # type: ignore[attr-defined]
            self.node.name,
        )

    def _column(self, line: int, byte_offset: int) -> int:
        """`ast` counts columns in UTF-8 bytes; carets need characters."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return byte_offset if text.isascii() else len(text.encode()[:byte_offset].decode(errors="ignore"))


_TREES: dict[str, tuple[tuple[str, ...], ast.Module]] = {}


def function_source(fn: types.FunctionType) -> FunctionSource:
    """The source of a function.

    Raises:
        StagingError: `fn` is not a plain `def`, or its source cannot be found.
    """
    code = fn.__code__
    if code.co_name == "<lambda>":
        raise StagingError("a lambda cannot be a kernel or a macro", hint="write it as a `def`")
    for lines in _versions_of_file(fn):
        node = _find(_parse(code.co_filename, lines), code)
        if node is not None:
            return FunctionSource(node, code.co_filename, lines)
    for text in _candidate_texts():
        found = _match(text, code)
        if found is not None:
            return found
    hint = (
        "define the kernel in a file or a notebook cell, or keep the text in a variable while `exec` runs it; "
        "if the file changed since it was imported, restart Python"
    )
    if code.co_filename == "<stdin>":
        hint = "what is piped into Python leaves no text behind: save the program and run `python program.py`"
    raise StagingError(
        f"the source of '{fn.__name__}' cannot be found ({code.co_filename}, line {code.co_firstlineno})", hint=hint
    )


def _versions_of_file(fn: types.FunctionType) -> Iterator[tuple[str, ...]]:
    """The lines of the function's file; if that has changed meanwhile, the versions that hold this very function."""
    file = fn.__code__.co_filename
    known = tuple(linecache.getlines(file, fn.__globals__))
    linecache.checkcache(file)
    present = tuple(linecache.getlines(file, fn.__globals__))
    if known == present:
        yield from [known] if known else []
        return
    for lines in (present, known):
        with contextlib.suppress(SyntaxError):
            if any(_same_code(c, fn.__code__) for c in _code_objects(compile("".join(lines), file, "exec"))):
                yield lines


def _parse(file: str, lines: tuple[str, ...]) -> ast.Module:
    cached = _TREES.get(file)
    if cached is None or cached[0] != lines:
        cached = _TREES[file] = (lines, ast.parse("".join(lines)))
    return cached[1]


def _find(tree: ast.Module, code: types.CodeType) -> ast.FunctionDef | None:
    """The `def` that the code object was compiled from: same name, same first line (the first decorator's)."""
    for node in _around(tree, code.co_firstlineno):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name == code.co_name and _first_line(node) == code.co_firstlineno:
            if isinstance(node, ast.AsyncFunctionDef):
                raise StagingError(f"'{code.co_name}' is an async function", hint="write a plain `def`")
            return node
    return None


def _around(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    """The nodes that reach over a line: walking a whole file would take longer than staging a kernel of it."""
    for child in ast.iter_child_nodes(tree):
        if _first_line(child) <= line <= getattr(child, "end_lineno", line):
            yield child
            yield from _around(child, line)


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", ())
    lines: list[int] = [getattr(node, "lineno", 0), *(d.lineno for d in decorators)]
    return min(lines)


def _candidate_texts() -> Iterator[str]:
    """Texts that may hold the source of code without a file, likeliest first."""
    frame = inspect.currentframe()
    while frame is not None:
        for values in (frame.f_locals.values(), frame.f_globals.values(), frame.f_code.co_consts):
            yield from [v for v in list(values) if isinstance(v, str) and "def " in v]
        frame = frame.f_back
    arguments = list(getattr(sys, "orig_argv", ()))
    if "-c" in arguments:
        yield from arguments[arguments.index("-c") + 1 :][:1]
    yield from _prompt_history()
    yield from _redirected_input()


def _redirected_input() -> Iterator[str]:
    """The program of `python < program.py`; what a pipe has given cannot be read again."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode):
            yield os.pread(0, status.st_size, 0).decode()


def _prompt_history() -> Iterator[str]:
    """Tails of the interactive prompt's history, shortest first: the last statements typed."""
    readline = sys.modules.get("readline")
    if readline is None:
        return
    typed: list[str] = []
    for index in range(readline.get_current_history_length(), 0, -1):
        line = readline.get_history_item(index)
        typed.insert(0, line or "")
        if (line or "").startswith(("def ", "@")):
            yield "\n".join(typed) + "\n"


def _match(text: str, code: types.CodeType) -> FunctionSource | None:
    """The source in `text`, if compiling the text gives code equal to `code`."""
    try:
        tree = ast.parse(text)
        compiled = compile(text, code.co_filename, "exec")
    except (SyntaxError, ValueError):
        return None
    if not any(_same_code(c, code) for c in _code_objects(compiled)):
        return None
    node = _find(tree, code)
    if node is None:
        return None
    file = f"{code.co_filename.rstrip('>')} #{len(_TREES) + 1}>"
    lines = tuple(text.splitlines(keepends=True))
    _TREES[file] = (lines, tree)
    linecache.cache[file] = (len(text), None, list(lines), file)
    return FunctionSource(node, file, lines)


def _same_code(a: types.CodeType, b: types.CodeType) -> bool:
    return (a.co_name, a.co_firstlineno, a.co_code, a.co_names, a.co_varnames) == (
        b.co_name,
        b.co_firstlineno,
        b.co_code,
        b.co_names,
        b.co_varnames,
    )


def _code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_objects(constant)
