"""Finds the source of a Python function: its syntax tree and the file whose lines error messages show.

Files and notebook cells come from `linecache`. Where code has no file, or the file was edited since it was read, a text
is accepted only if compiling it gives this very function.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import functools
import itertools
import linecache
import types
from collections.abc import Iterator

from tilelang.errors import Loc, StagingError
from tilelang.language.source_texts import candidate_texts, statements
from tilelang.records import record


@record(slots=True)
class FunctionSource:
    """A function's syntax tree with exact positions.

    Attributes:
        node: The `def`; positions count in lines of `file`.
        file: The name under which `linecache` has the lines.
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


class _Version:
    """The text of a file at one time, or a text that was found for code without a file under a name made for it."""

    def __init__(self, file: str, lines: tuple[str, ...]) -> None:
        self.file = file
        self.lines = lines
        self._statements: dict[int, ast.Module] = {}

    @functools.cached_property
    def tree(self) -> ast.Module:
        try:
            return ast.parse("".join(self.lines))
        except SyntaxError:  # a file that is being edited
            return ast.Module([], [])

    def _statement_around(self, line: int) -> ast.Module:
        """The tree of the top-level statement that a line belongs to; empty where it cannot be parsed by itself.

        It reaches from the last line up to this one that is not indented to the next. Where such a line does not
        begin a statement, since it is inside a text, the part that is parsed ends inside of one, a syntax error.
        """
        lines, count = self.lines, len(self.lines)
        start = next((n for n in range(min(line, count) - 1, -1, -1) if _begins_statement(lines[n])), 0)
        if start not in self._statements:
            begins = (n for n in range(start, count) if _begins_statement(lines[n]))
            undecorated = itertools.dropwhile(lambda n: lines[n].startswith("@"), begins)
            next(undecorated, None)
            try:
                tree = ast.parse("\n" * start + "".join(lines[start : next(undecorated, count)]))
            except SyntaxError:
                tree = ast.Module([], [])
            self._statements[start] = tree
        return self._statements[start]

    def find(self, code: types.CodeType) -> FunctionSource | None:
        """The `def` that the code was compiled from: same name, same first line (the first decorator's)."""
        line = code.co_firstlineno
        # parsing a whole file may take longer than all else that is done for a kernel in the cache
        return self._find_in(self._statement_around(line), code) or self._find_in(self.tree, code)

    def _find_in(self, tree: ast.Module, code: types.CodeType) -> FunctionSource | None:
        for node in _around(tree, code.co_firstlineno):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name == code.co_name and _first_line(node) == code.co_firstlineno:
                if isinstance(node, ast.AsyncFunctionDef):
                    raise StagingError(f"'{code.co_name}' is an async function", hint="write a plain `def`")
                return FunctionSource(node, self.file, self.lines)
        return None


_KEPT_VERSIONS = 8
_VERSIONS: dict[str, list[_Version]] = {}
"""By the file name of code: the versions that were read so far, the newest first."""

_NUMBERS = itertools.count(1)


def function_source(fn: types.FunctionType) -> FunctionSource:
    """The source of a function.

    Raises:
        StagingError: `fn` is not a plain `def`, or its source cannot be found.
    """
    code = fn.__code__
    if code.co_name == "<lambda>":
        raise StagingError("a lambda cannot be a kernel or a macro", hint="write it as a `def`")
    for version in _known_versions(fn):
        found = version.find(code)
        if found is not None:
            return found
    texts: dict[str, None] = {}
    for text in candidate_texts(fn):
        if code.co_name in text and text not in texts:
            if _gives(text, code):
                return _keep(text, code)
            texts[text] = None
    for text in texts:
        for statement in statements(text, code.co_name):
            aligned = _aligned(statement, code)
            if aligned is not None and _gives(aligned, code):
                return _keep(aligned, code)
    hint = (
        "define the kernel in a file or a notebook cell, or keep the text in a variable while `exec` runs it; "
        "if the file changed since it was imported, restart Python"
    )
    if code.co_filename == "<stdin>":
        hint = (
            "of what is piped into Python only the last 4096 bytes can be read again, and nothing where "
            "PYTHONUNBUFFERED is set: save the program and run `python program.py`"
        )
    raise StagingError(
        f"the source of '{fn.__name__}' cannot be found ({code.co_filename}, line {code.co_firstlineno})", hint=hint
    )


def _known_versions(fn: types.FunctionType) -> Iterator[_Version]:
    """The versions of the function's file; if there are several, those that hold this very function."""
    file = fn.__code__.co_filename
    versions = _VERSIONS.setdefault(file, [])
    _read_file(versions, fn)
    linecache.checkcache(file)
    _read_file(versions, fn)
    if len(versions) == 1 and not file.startswith("<"):
        yield from versions
        return
    for version in versions:
        if _gives("".join(version.lines), fn.__code__):
            yield version


def _read_file(versions: list[_Version], fn: types.FunctionType) -> None:
    file = fn.__code__.co_filename
    lines = tuple(linecache.getlines(file, fn.__globals__))
    if lines and all(version.lines != lines for version in versions):
        versions.insert(0, _Version(file, lines))
        del versions[_KEPT_VERSIONS:]


def _keep(text: str, code: types.CodeType) -> FunctionSource:
    """The function in a text that was found for code without a file; from now on `linecache` has the text, too."""
    file = f"{code.co_filename.rstrip('>')} #{next(_NUMBERS)}>"
    version = _Version(file, tuple(text.splitlines(keepends=True)))
    linecache.cache[file] = (len(text), None, list(version.lines), file)
    versions = _VERSIONS[code.co_filename]
    versions.insert(0, version)
    del versions[_KEPT_VERSIONS:]
    found = version.find(code)
    assert found is not None
    return found


def _aligned(statement: str, code: types.CodeType) -> str | None:
    """The statement with empty lines before it, so that its `def` is on the line of the code object."""
    for node in ast.walk(ast.parse(statement)):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            return "\n" * (code.co_firstlineno - _first_line(node)) + statement
    return None


def _gives(text: str, code: types.CodeType) -> bool:
    """Whether compiling the text gives code equal to `code`."""
    # The text of `exec` is compiled with the future statements of the module that calls it.
    future = code.co_flags & __future__.annotations.compiler_flag
    return code in _code_objects(text, code.co_filename, future)


@functools.lru_cache(maxsize=32)
def _code_objects(text: str, file: str, flags: int) -> list[types.CodeType]:
    found: list[types.CodeType] = []
    with contextlib.suppress(SyntaxError, ValueError):
        found.append(compile(text, file, "exec", flags, dont_inherit=True))
    for code in found:
        found += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return found


def _around(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    """The nodes that reach over a line: walking a whole file would take longer than staging a kernel of it."""
    for child in ast.iter_child_nodes(tree):
        if _first_line(child) <= line <= getattr(child, "end_lineno", line):
            yield child
            yield from _around(child, line)


def _begins_statement(line: str) -> bool:
    """Whether a line is not indented, nor empty, a comment or the end of brackets."""
    return line[:1] not in _NO_STATEMENT


_NO_STATEMENT = ("", " ", "\t", "\n", "\r", "\f", "#", ")", "]", "}")


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", ())
    lines: list[int] = [getattr(node, "lineno", 0), *(d.lineno for d in decorators)]
    return min(lines)
