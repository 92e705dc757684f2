"""Records of intrinsics, and their texts in a language.

A target has one `Template` per intrinsic and dtype, with the `Helper` that it needs. Invariant: a template computes
what `meaning` computes, up to rounding of the last bits.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.callee import Callee
from tilelang.records import record


@record(slots=True)
class Helper:
    """A definition in the source of a kernel, printed before its first use.

    Attributes:
        name: Unique name; a source contains each helper once.
        text: The definition, a whole number of lines.
        needs: Helpers that must come before it.
        headers: Headers to include, as written between `#include` and the end of the line.
    """

    name: str
    text: str
    needs: tuple[Helper, ...] = ()
    headers: tuple[str, ...] = ()


def needed(*helpers: Helper | None) -> tuple[Helper, ...]:
    """Those helpers that are not None, in order."""
    return tuple(helper for helper in helpers if helper is not None)


@record(slots=True)
class Template:
    """The text of an operation in one language: an expression in which `{0}`, `{1}`, ... stand for operands.

    Operands may be any expressions: the text parenthesizes them where needed, and uses each of them once. `{0}` alone
    is the operand itself.
    """

    text: str
    helper: Helper | None = None

    def format(self, *operands: str) -> str:
        """The text with these operands."""
        return self.text.format(*operands)


@record(slots=True, eq=False)
class Intrinsic(Callee):
    """A scalar function; its texts are in the dialects of targets.

    Attributes:
        source: Reference of the definition.
    """

    source: str = ""


def ordered_helpers(helpers: Iterable[Helper]) -> list[Helper]:
    """The helpers and their dependencies, each once, dependencies first."""
    placed: dict[str, Helper] = {}
    for helper in helpers:
        _place(helper, placed)
    return list(placed.values())


def _place(helper: Helper, placed: dict[str, Helper]) -> None:
    if helper.name not in placed:
        for needed in helper.needs:
            _place(needed, placed)
        placed[helper.name] = helper
