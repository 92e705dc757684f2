"""Builder of statements, with the source location that new statements receive."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilelang.errors import NOWHERE, Loc
from tilelang.ir.stmt import Seq, Stmt


class Builder:
    """A program under construction: a stack of blocks of statements.

    Attributes:
        loc: The place that new statements without one receive.
    """

    def __init__(self, loc: Loc = NOWHERE) -> None:
        self.loc = loc
        self._blocks: list[list[Stmt]] = [[]]

    @property
    def statements(self) -> list[Stmt]:
        """The statements of the innermost open block."""
        return self._blocks[-1]

    @property
    def open_blocks(self) -> list[list[Stmt]]:
        """All open blocks, outermost first."""
        return self._blocks

    @property
    def depth(self) -> int:
        """The number of open blocks, the outermost included."""
        return len(self._blocks)

    def emit(self, stmt: Stmt) -> None:
        """Appends a statement to the innermost open block."""
        if stmt.loc is NOWHERE and self.loc is not NOWHERE:
            stmt = dataclasses.replace(stmt, loc=self.loc)
        self._blocks[-1].append(stmt)

    def open_block(self) -> list[Stmt]:
        """Starts a nested block, which collects what is emitted from now on, and returns it."""
        self._blocks.append([])
        return self._blocks[-1]

    def close_block(self) -> list[Stmt]:
        """Ends the innermost nested block and returns its statements."""
        return self._blocks.pop()

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Collects the statements emitted inside the `with` in a list of their own."""
        body = self.open_block()
        try:
            yield body
        finally:
            self.close_block()

    def finish(self) -> Stmt:
        """Everything emitted into the outermost block."""
        return as_body(self._blocks[0], self.loc)


def as_body(statements: Sequence[Stmt], loc: Loc = NOWHERE) -> Stmt:
    """Statements as one statement: a single one as it is, else a `Seq`."""
    return statements[0] if len(statements) == 1 else Seq(tuple(statements), loc=loc)
