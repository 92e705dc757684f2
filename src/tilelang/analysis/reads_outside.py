"""Which statements read what other statements leave in scalars and arrays of a thread.

Takes the body of a launch; tells for a parallel loop and a buffer whether anybody else reads it. Invariant: a loop that
writes a buffer before it reads it does not count as a reader.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.accesses import accesses
from tilelang.analysis.parallel_legality import is_private
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import ParallelLoop, Seq, Stmt
from tilelang.ir.visit import sub_statements

_OF_THREAD = (Scope.VAR, Scope.LOCAL)


class ReadsOutside:
    """Where scalars and arrays of threads are read."""

    def __init__(self, body: Stmt) -> None:
        self._units: list[tuple[Stmt, frozenset[Buffer]]] = []
        self._collect(body)

    def matter(self, loop: ParallelLoop, buffer: Buffer) -> bool:
        """Whether something beside the loop reads what a buffer held before it."""
        return any(
            unit is not loop and buffer in read and not (isinstance(unit, ParallelLoop) and is_private(buffer, unit))
            for unit, read in self._units
        )

    def _collect(self, node: Stmt) -> None:
        children = [] if isinstance(node, ParallelLoop) else list(sub_statements(node))
        seen = accesses(node if not children else _without(node))
        read = frozenset(a.buffer.storage for a in seen.reads if a.buffer.scope in _OF_THREAD)
        if read:
            self._units.append((node, read))
        for child in children:
            self._collect(child)


def _without(node: Stmt) -> Stmt:
    """The statement with nothing in it: what it reads itself."""
    empty = Seq((), loc=node.loc)
    if isinstance(node, Seq):
        return empty
    changes = {f.name: empty for f in dataclasses.fields(node) if isinstance(getattr(node, f.name), Stmt)}
    return dataclasses.replace(node, **changes)  # type: ignore[arg-type]
