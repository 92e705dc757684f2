"""The texts that may hold the source of code without a file, and the statements of a text that define a function.

Code given to `exec`, `python -c`, standard input and the interactive prompt leaves no file behind. Its text is looked
for in the strings and files that the calling frames know, on the interpreter's command line, in the prompt's history,
and in what standard input was read from. Whoever takes a text from here has to check it: none of them is certain.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import inspect
import os
import re
import stat
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator

_LONGEST_FILE = 1 << 20
"""Files that frames name are read up to this size, in bytes."""


def candidate_texts(fn: types.FunctionType) -> Iterator[str]:
    """Texts that may hold the source of a function, likeliest first."""
    with contextlib.suppress(OSError, TypeError, SyntaxError):
        yield "".join(inspect.findsource(fn)[0])  # what Python 3.13 and later keep of the prompt and of `-c`
    yield from _known_to_frames()
    for argument in sys.orig_argv[1:]:
        yield argument
        yield argument.partition("c")[2]  # `-cPROGRAM`, `-Ic` and its kin
    yield _prompt_history()
    yield _redirected_input()
    yield _rest_of_a_pipe()


def statements(text: str, name: str) -> Iterator[str]:
    """The statements of a text that hold a `def` of this name, without what stands around them.

    Unlike a syntax tree of the whole, this needs nothing of the text to be right but the statement itself.
    """
    for variant in dict.fromkeys((text, textwrap.dedent(text))):
        lines = variant.splitlines(keepends=True)
        starts = [n for n, line in enumerate(lines) if not line[0].isspace() and not line.startswith("#")]
        pattern = re.compile(rf"\s*(async\s+)?def\s+{re.escape(name)}\b")
        for number in reversed([n for n, line in enumerate(lines) if pattern.match(line)]):
            for start in reversed([n for n in starts if n <= number]):
                for stop in [*(n for n in starts if n > number), len(lines)]:
                    statement = "".join(lines[start:stop])
                    with contextlib.suppress(SyntaxError, ValueError):
                        ast.parse(statement)
                        yield statement


def _known_to_frames() -> Iterator[str]:
    """Strings among the variables and literals of the calling frames, and files that they name."""
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(os.path.dirname(__file__)):
            local = [*frame.f_locals.values(), *code.co_consts]
            yield from filter(None, map(_as_text, local))
            yield from _files_among(local)
            yield from filter(None, map(_as_text, list(frame.f_globals.values())))
        frame = frame.f_back


def _as_text(value: object) -> str | None:
    if isinstance(value, bytes) and b"def " in value:
        value = value.decode(errors="replace")
    return value if isinstance(value, str) and "def " in value else None


def _files_among(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, os.PathLike) or (isinstance(value, str) and value.endswith(".py")):
            with contextlib.suppress(OSError, ValueError):
                if os.path.isfile(value) and os.path.getsize(value) <= _LONGEST_FILE:
                    with open(value, encoding="utf-8") as file:
                        yield file.read()


def _prompt_history() -> str:
    """Return the text typed at the prompt of a terminal."""
    readline = sys.modules.get("readline")
    if readline is None:
        return ""
    count = readline.get_current_history_length()
    typed = (readline.get_history_item(index) or "" for index in range(max(1, count - 999), count + 1))
    return "\n".join(typed) + "\n"


def _redirected_input() -> str:
    """The program of `python < program.py`."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode):
            return os.pread(0, status.st_size, 0).decode()
    return ""


def _rest_of_a_pipe() -> str:
    """The last 4096 bytes of a program that came through a pipe, which the buffer of C's `stdin` still holds.

    CPython reads a program through this `FILE`. Its layout belongs to glibc's ABI: an int, then pointers, of which the
    seventh and eighth are the buffer's bounds. Where more was read than fits, the end of the text stands before what
    is left of the part before it; the buffer twice in a row has the two in order.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError):
        libc = ctypes.CDLL(None)
        if not (hasattr(libc, "gnu_get_libc_version") and stat.S_ISFIFO(os.fstat(0).st_mode)):
            return ""
        pointers = (ctypes.c_void_p * 9).from_address(ctypes.c_void_p.in_dll(libc, "stdin").value or 0)
        begin, end = pointers[7], pointers[8]
        if begin and end and 1 < end - begin <= _LONGEST_FILE:
            held = ctypes.string_at(begin, end - begin).partition(b"\0")[0]
            return 2 * held.decode(errors="replace")
    return ""
