"""Numbers that the host computes for each call, such as grids, as Python expressions over symbols and scalars.

Invariant: an expression can only access these names and the functions listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType

from tilelang.errors import CompilerBug

_FUNCTIONS = {"min": min, "max": max, "abs": abs, "int": int}


def compiled(text: str) -> CodeType:
    """A compiled expression; its `co_names` are the names that it uses.

    Raises:
        CompilerBug: The text is none.
    """
    try:
        return compile(text, "<tilelang number>", "eval")
    except SyntaxError as error:
        raise CompilerBug(f"a number for the host is no Python expression: {text!r}") from error


def evaluated(code: CodeType, names: Mapping[str, int | float]) -> int | float:
    """The value of an expression."""
    result: int | float = eval(code, {"__builtins__": {}, **_FUNCTIONS}, dict(names))
    return result
