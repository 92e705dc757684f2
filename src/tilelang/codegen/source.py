"""What code generation hands to a compiler: text, its entry point, and the way back to the user's lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilelang.errors import Loc


@dataclass(frozen=True)
class Source:
    """Generated source text.

    Attributes:
        language: "cpp" or another key of `Intrinsic.spell`.
        text: The source.
        entry: Name of the function to call.
        lines: The user's place for lines of `text`, counted from 1, where there is one.
        asserts: Message and place of each assertion; the entry returns n + 1 when number n failed.
        flags: Compiler flags this text needs beyond the defaults.
    """

    language: str
    text: str
    entry: str
    lines: Mapping[int, Loc] = field(default_factory=dict)
    asserts: tuple[tuple[str, Loc], ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def key_text(self) -> str:
        """The text without whole-line comments: what decides the compiled result, for cache keys."""
        return "\n".join(line for line in self.text.splitlines() if not line.lstrip().startswith("//"))
