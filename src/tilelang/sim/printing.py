"""The text of `T.print`, the same in all execution backends.

Takes what the user printed, gives the line or lines. Invariant: a compiled kernel prints exactly what the interpreter
prints, so everything here is within reach of C's printf:

- a float is `%g` of its value as a double, with `nan`, `inf` and `-inf` spelled so whatever the sign of a NaN;
- an integer is `%lld` (`%llu` if unsigned), a truth value `True` or `False`;
- a scalar is `label(message or source)` and its value;
- a tile is `label(message)`, its name, shape and dtype on one line, then its rows, one per line, in nested brackets.
"""

from __future__ import annotations

import math

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import FalseAssumption, Note
from tilelang.ir.expr import Expr
from tilelang.ir.printer import to_text
from tilelang.ir.scalar import Value


def label(message: str) -> str:
    """Return the text before a value: the message, set off from it unless it ends in white space already."""
    if not message or message[-1].isspace():
        return message
    return f"{message} " if message[-1] in ":=" else f"{message}: "


def number_text(value: Value, dtype: DType) -> str:
    """One value."""
    if dtype.is_bool:
        return "True" if value else "False"
    if dtype.is_int:
        return str(int(value))
    number = float(value)
    return "nan" if math.isnan(number) else f"{number:g}"


def scalar_text(message: str, source: str, value: Value, dtype: DType) -> str:
    """The line for a scalar; without a message the user's own text for it stands in front: `C[0] = 1.5`."""
    return f"{label(message or (f'{source} =' if source else ''))}{number_text(value, dtype)}"


def tile_header(message: str, name: str, shape: tuple[int, ...], dtype: DType) -> str:
    """The first line for a tile: `accumulator: C_f (64, 64) float32`."""
    inner = ", ".join(map(str, shape))
    return f"{label(message)}{name} ({inner}{',' if len(shape) == 1 else ''}) {dtype!s}"


def tile_text(
    message: str, name: str, values: np.ndarray, dtype: DType, defined: np.ndarray | None = None
) -> str:
    """The lines for a tile.

    Row by row: a row opens as many brackets as trailing indices of it are 0, and one for itself, indented so that all
    rows align; it closes likewise after the last ones; a comma follows all rows but the last.

    Args:
        message: The user's.
        name: The buffer's.
        values: At least one dimension.
        dtype: Of the values.
        defined: Which elements are; the others show as `?`.
    """
    header = tile_header(message, name, values.shape, dtype)
    if values.size == 0:
        return f"{header}\n[]"
    lines = [header]
    outer = values.shape[:-1]
    for row in np.ndindex(*outer):
        opened = 1 + _trailing(row, tuple(0 for _ in outer))
        closed = 1 + _trailing(row, tuple(extent - 1 for extent in outer))
        defined_row = [True] * values.shape[-1] if defined is None else defined[row]
        elements = (
            number_text(value, dtype) if known else "?" for value, known in zip(values[row], defined_row, strict=True)
        )
        is_last = closed > len(outer)
        indent = " " * (len(outer) + 1 - opened)
        lines.append(f"{indent}{'[' * opened}{', '.join(elements)}{']' * closed}{'' if is_last else ','}")
    return "\n".join(lines)


def _trailing(index: tuple[int, ...], pattern: tuple[int, ...]) -> int:
    """Count the last indices that equal the pattern's."""
    count = 0
    while count < len(index) and index[-1 - count] == pattern[-1 - count]:
        count += 1
    return count


def false_assumption(condition: Expr, *notes: Note) -> FalseAssumption:
    """The error for a condition that was promised and does not hold."""
    return FalseAssumption(
        f"T.assume: '{to_text(condition)}' does not hold",
        notes=notes,
        hint="the compiler relies on it: correct it, or test the condition with an if",
    )
