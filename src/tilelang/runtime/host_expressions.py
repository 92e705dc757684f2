"""Expressions that the host evaluates for each call, such as grids: Python text over symbols and scalars.

Invariant: an expression can only access these names and the functions listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType

from tilelang.errors import CompilerBug

_FUNCTIONS = {"min": min, "max": max, "abs": abs, "int": int}


def compile_expression(text: str) -> CodeType:
    """Compiles the text of an expression; the `co_names` of the result are the names that it uses.

    Raises:
        CompilerBug: The text is no expression.
    """
    try:
        return compile(text, "<tilelang number>", "eval")
    except SyntaxError as error:
        raise CompilerBug(f"a number for the host is no Python expression: {text!r}") from error


def evaluate_expression(code: CodeType, names: Mapping[str, int | float]) -> int | float:
    """The value of an expression."""
    result: int | float = eval(code, {"__builtins__": {}, **_FUNCTIONS}, dict(names))
    return result
