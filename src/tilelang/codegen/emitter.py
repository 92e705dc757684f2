"""Emits indented text, and records the user's line for each line of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilelang.errors import NOWHERE, Loc


class Emitter:
    """Collects lines of source text.

    Attributes:
        loc: The user's location of the next lines.
    """

    def __init__(self) -> None:
        self.loc: Loc = NOWHERE
        self._lines: list[str] = []
        self._locs: list[Loc] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Appends a line at the current indentation."""
        self._lines.append("    " * self._depth + text if text else "")
        self._locs.append(self.loc)

    def directive(self, text: str) -> None:
        """Appends a preprocessor line, without indentation."""
        self._lines.append(text)
        self._locs.append(self.loc)

    @contextmanager
    def block(self, header: str = "", end: str = "}") -> Iterator[None]:
        """A braced block; `header` precedes the opening brace."""
        self.line(f"{header} {{" if header else "{")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self.line(end)

    def include(self, other: Emitter) -> None:
        """Appends the lines of another emitter, indented as lines are here."""
        margin = "    " * self._depth
        self._lines.extend(margin + text if text and not text.startswith("#") else text for text in other._lines)
        self._locs.extend(other._locs)

    def finish(self, preamble: str = "") -> tuple[str, dict[int, Loc]]:
        """The text after a preamble, and the user's location of each line that has one."""
        head = preamble.splitlines()
        lines = {n: loc for n, loc in enumerate(self._locs, start=len(head) + 1) if loc.file}
        return "\n".join([*head, *self._lines]) + "\n", lines
