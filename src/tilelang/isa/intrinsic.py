"""The record of an intrinsic, and the words in which a language writes one.

Gives `Intrinsic`, `Spelling`, of which a target has one per intrinsic and dtype, and the `Helper` texts that spellings
need. Invariant: a spelling's text computes exactly what `meaning` computes, up to rounding of the last bits.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.callee import Callee
from tilelang.records import record


@record(slots=True)
class Helper:
    """A piece of source that a kernel must contain before the text that uses it.

    Attributes:
        name: Its name; one helper appears once in a source, whoever asks for it.
        text: The definition, a whole number of lines.
        needs: Helpers that must come before it.
        headers: Headers to include, as written between `#include` and the end of the line.
    """

    name: str
    text: str
    needs: tuple[Helper, ...] = ()
    headers: tuple[str, ...] = ()


@record(slots=True)
class Spelling:
    """How an operation is written in one language: an expression in which `{0}`, `{1}`, ... stand for operands.

    The operands may be any expressions: the text puts them in parentheses or argument places where needed, and uses
    each of them once.
    """

    text: str
    helper: Helper | None = None

    def of(self, *operands: str) -> str:
        """The expression applied to the given operand texts."""
        return self.text.format(*operands)


@record(slots=True, eq=False)
class Intrinsic(Callee):
    """A scalar function; the dialect of a target has its text.

    Attributes:
        source: Where the definition comes from, in words.
    """

    source: str = ""


def ordered_helpers(helpers: Iterable[Helper]) -> list[Helper]:
    """The helpers and all they need, each once, needed ones first."""
    placed: dict[str, Helper] = {}

    def place(helper: Helper) -> None:
        if helper.name not in placed:
            for needed in helper.needs:
                place(needed)
            placed[helper.name] = helper

    for helper in helpers:
        place(helper)
    return list(placed.values())
